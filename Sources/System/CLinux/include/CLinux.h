// Calls of Linux that Swift's Glibc module lacks: the system calls of keyrings(7), access control lists, locks of open
// file descriptions, and inotify(7). Results are the kernel's: a negative one is -errno. Where there is no such kernel, every call answers
// that it does not exist.
//
// No header of the system's is included: Swift would find its types here, and no more in its own module.
#pragma once
#include <stddef.h>
#include <stdint.h>

// The meaning of an event of inotify(7) for a watched folder.
enum folder_event_kind { folder_event_entry, folder_event_overflow, folder_event_folder };

struct folder_event {
    int watch;
    enum folder_event_kind kind;
    const char *name;  // of the entry that was made, replaced or removed
    size_t next;       // offset of the next event
};

// The user does not choose the files of a program that has more rights than the user, setuid or with file capabilities.
const char *trusted_environment(const char *name);
// Has the kernel give zeros to a forked child in the place of these bytes and the rest of their pages.
int wipe_on_fork(const void *start, size_t length);
// A page of zeros that is one in a forked child, too, whatever was written to it. NULL if the kernel cannot do that.
long *page_wiped_on_fork(void);
// Says whether a process waits for the file's flock, with a mark that goes with the descriptor.
void file_set_waiting(int file, int is_waiting);
// Whether another open file description bears the mark.
int file_is_waited_for(int file);
// Whether an open file has an access control list: the permissions of its group are another thing then, acl(5).
int has_access_control_list(int file);
int file_is_on_fuse(int file);
// Into the keyring of this process, where no other process sees it.
long kernel_key_add(const char *description, const void *payload, size_t length);
long kernel_key_search(const char *description);
long kernel_key_read(int32_t key, void *buffer, size_t length);
// In the place of what the key holds. Its serial number stays.
long kernel_key_update(int32_t key, const void *payload, size_t length);
long kernel_key_set_permissions(int32_t key, uint32_t permissions);
long kernel_key_set_timeout(int32_t key, uint32_t seconds);
// Into the keyring of the user, in the place of a key with the same description.
long kernel_key_publish(int32_t key);
long kernel_key_withdraw(int32_t key);
long kernel_key_revoke(int32_t key);
// Whether no process reads a key any more, by what its revocation has answered.
int kernel_key_is_gone(long result);
long kernel_key_unlink(int32_t key);
// A lock that the programs which share the user's keyring take in turn: keyrings belong to a user namespace, and its file is
// the same one for all who are in it. Returns a descriptor, and does not wait: -EWOULDBLOCK if another has it.
long kernel_key_lock(void);
long folder_watch_open(void);
long folder_watch_open_stop(void);
// Makes every wait return.
void folder_watch_stop(int stop);
long folder_watch_add(int watches, const char *path);
// Waits for events and reads them. 0 if it was stopped.
long folder_watch_read(int watches, int stop, void *buffer, size_t length);
struct folder_event folder_event_at(const void *buffer, size_t offset);
