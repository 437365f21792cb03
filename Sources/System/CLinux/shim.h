// Calls of Linux that Swift's Glibc module lacks: the system calls of keyrings(7), access control lists, locks of open
// file descriptions, and inotify(7). Results are the kernel's: a negative one is -errno. Where there is no such kernel, every call answers
// that it does not exist.
#pragma once
#include <errno.h>
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

#include <stdlib.h>

#ifdef __linux__
extern char *secure_getenv(const char *name);

// The user does not choose the files of a program that has more rights than the user, setuid or with file capabilities.
static inline const char *trusted_environment(const char *name) { return secure_getenv(name); }

#include <fcntl.h>
#include <linux/keyctl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

// Whether an open file has an access control list: the permissions of its group are another thing then, acl(5).
static inline int has_access_control_list(int file) {
    return fgetxattr(file, "system.posix_acl_access", NULL, 0) > 0;
}

static inline int file_is_on_fuse(int file) {
    struct statfs system;
    return fstatfs(file, &system) == 0 && (unsigned long)system.f_type == 0x65735546;
}

// A shared lock, F_OFD_SETLK of fcntl(2), on one byte far behind the end of the file: it says that a process waits for the
// file's flock. It goes with the descriptor, also when the process is killed.
#define LOCKBOX_OFD_GETLK 36  // F_OFD_GETLK and F_OFD_SETLK, which some headers show to GNU programs only
#define LOCKBOX_OFD_SETLK 37

static inline struct flock waiting_mark(short type) {
    struct flock mark = {0};
    mark.l_type = type;
    mark.l_whence = SEEK_SET;
    mark.l_start = 1 << 30;
    mark.l_len = 1;
    return mark;
}

static inline void file_set_waiting(int file, int is_waiting) {
    struct flock mark = waiting_mark(is_waiting ? F_RDLCK : F_UNLCK);
    (void)fcntl(file, LOCKBOX_OFD_SETLK, &mark);
}

// Whether another open file description bears the mark.
static inline int file_is_waited_for(int file) {
    struct flock mark = waiting_mark(F_WRLCK);
    return fcntl(file, LOCKBOX_OFD_GETLK, &mark) == 0 && mark.l_type != F_UNLCK;
}

#define LOCKBOX_WIPEONFORK 18  // MADV_WIPEONFORK, which some headers show to GNU programs only

// Has the kernel give zeros to a forked child in the place of these bytes and the rest of their pages.
static inline int wipe_on_fork(const void *start, size_t length) {
    uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)start / size * size;
    uintptr_t end = ((uintptr_t)start + length + size - 1) / size * size;
    return madvise((void *)first, end - first, LOCKBOX_WIPEONFORK) == 0;
}

// A page of zeros that is one in a forked child, too, whatever was written to it. NULL if the kernel cannot do that.
static inline long *page_wiped_on_fork(void) {
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | 0x20 /* MAP_ANONYMOUS */, -1, 0);
    return page != MAP_FAILED && wipe_on_fork(page, size) ? page : NULL;
}

static inline long kernel_keyring_result(long result) { return result < 0 ? -errno : result; }

// Into the keyring of this process, where no other process sees it.
static inline long kernel_key_add(const char *description, const void *payload, size_t length) {
    return kernel_keyring_result(
        syscall(SYS_add_key, "user", description, payload, length, KEY_SPEC_PROCESS_KEYRING));
}

static inline long kernel_key_search(const char *description) {
    return kernel_keyring_result(
        syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_USER_KEYRING, "user", description, 0));
}

static inline long kernel_key_read(int32_t key, void *buffer, size_t length) {
    return kernel_keyring_result(syscall(SYS_keyctl, KEYCTL_READ, key, buffer, length));
}

// In the place of what the key holds. Its serial number stays.
static inline long kernel_key_update(int32_t key, const void *payload, size_t length) {
    return kernel_keyring_result(syscall(SYS_keyctl, KEYCTL_UPDATE, key, payload, length));
}

static inline long kernel_key_set_permissions(int32_t key, uint32_t permissions) {
    return kernel_keyring_result(syscall(SYS_keyctl, KEYCTL_SETPERM, key, permissions));
}

static inline long kernel_key_set_timeout(int32_t key, uint32_t seconds) {
    return kernel_keyring_result(syscall(SYS_keyctl, KEYCTL_SET_TIMEOUT, key, seconds));
}

// Into the keyring of the user, in the place of a key with the same description.
static inline long kernel_key_publish(int32_t key) {
    return kernel_keyring_result(syscall(SYS_keyctl, KEYCTL_LINK, key, KEY_SPEC_USER_KEYRING));
}

static inline long kernel_key_withdraw(int32_t key) {
    return kernel_keyring_result(syscall(SYS_keyctl, KEYCTL_UNLINK, key, KEY_SPEC_PROCESS_KEYRING));
}

static inline long kernel_key_revoke(int32_t key) {
    return kernel_keyring_result(syscall(SYS_keyctl, KEYCTL_REVOKE, key));
}

// Whether no process reads a key any more, by what its revocation has answered.
static inline int kernel_key_is_gone(long result) {
    return result == 0 || result == -EKEYREVOKED || result == -EKEYEXPIRED || result == -ENOKEY;
}

static inline long kernel_key_unlink(int32_t key) {
    return kernel_keyring_result(syscall(SYS_keyctl, KEYCTL_UNLINK, key, KEY_SPEC_USER_KEYRING));
}

// A lock that the programs which share the user's keyring take in turn: keyrings belong to a user namespace, and its file is
// the same one for all who are in it. Returns a descriptor, and does not wait: -EWOULDBLOCK if another has it.
static inline long kernel_key_lock(void) {
    int file = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
    if (file < 0) return -errno;
    if (flock(file, LOCK_EX | LOCK_NB) == 0) return file;
    int error = errno;
    close(file);
    return -error;
}

static inline void kernel_key_unlock(int file) { close(file); }

static inline long folder_watch_result(long result) { return result < 0 ? -errno : result; }

static inline long folder_watch_open(void) { return folder_watch_result(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)); }

static inline long folder_watch_open_stop(void) { return folder_watch_result(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)); }

// Makes every wait return.
static inline void folder_watch_stop(int stop) { (void)eventfd_write(stop, 1); }

static inline long folder_watch_add(int watches, const char *path) {
    uint32_t events = IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF;
    return folder_watch_result(inotify_add_watch(watches, path, events | IN_ONLYDIR));
}

// Waits for events and reads them. 0 if it was stopped.
static inline long folder_watch_read(int watches, int stop, void *buffer, size_t length) {
    struct pollfd files[] = {{.fd = stop, .events = POLLIN}, {.fd = watches, .events = POLLIN}};
    while (1) {
        if (poll(files, 2, -1) < 0 && errno != EINTR) return -errno;
        if (files[0].revents) return 0;
        ssize_t result = read(watches, buffer, length);
        if (result >= 0 || (errno != EINTR && errno != EAGAIN)) return folder_watch_result(result);
    }
}

static inline struct folder_event folder_event_at(const void *buffer, size_t offset) {
    const struct inotify_event *event = (const void *)((const char *)buffer + offset);
    enum folder_event_kind kind = folder_event_entry;
    if (event->mask & IN_Q_OVERFLOW) kind = folder_event_overflow;
    else if (event->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED | IN_UNMOUNT)) kind = folder_event_folder;
    return (struct folder_event){event->wd, kind, event->len ? event->name : "", offset + sizeof *event + event->len};
}
#else
#include <unistd.h>

static inline const char *trusted_environment(const char *name) { return issetugid() ? NULL : getenv(name); }
static inline int wipe_on_fork(const void *start, size_t length) { return 0; }
static inline long *page_wiped_on_fork(void) { return NULL; }
static inline void file_set_waiting(int file, int is_waiting) {}
static inline int file_is_waited_for(int file) { return 0; }
static inline int has_access_control_list(int file) { return 0; }
static inline int file_is_on_fuse(int file) { return 0; }
static inline long kernel_key_add(const char *description, const void *payload, size_t length) { return -ENOSYS; }
static inline long kernel_key_search(const char *description) { return -ENOSYS; }
static inline long kernel_key_read(int32_t key, void *buffer, size_t length) { return -ENOSYS; }
static inline long kernel_key_update(int32_t key, const void *payload, size_t length) { return -ENOSYS; }
static inline long kernel_key_set_permissions(int32_t key, uint32_t permissions) { return -ENOSYS; }
static inline long kernel_key_set_timeout(int32_t key, uint32_t seconds) { return -ENOSYS; }
static inline long kernel_key_publish(int32_t key) { return -ENOSYS; }
static inline long kernel_key_withdraw(int32_t key) { return -ENOSYS; }
static inline long kernel_key_revoke(int32_t key) { return -ENOSYS; }
static inline int kernel_key_is_gone(long result) { return 1; }
static inline long kernel_key_unlink(int32_t key) { return -ENOSYS; }
static inline long kernel_key_lock(void) { return -ENOSYS; }
static inline void kernel_key_unlock(int file) {}
static inline long folder_watch_open(void) { return -ENOSYS; }
static inline long folder_watch_open_stop(void) { return -ENOSYS; }
static inline void folder_watch_stop(int stop) {}
static inline long folder_watch_add(int watches, const char *path) { return -ENOSYS; }
static inline long folder_watch_read(int watches, int stop, void *buffer, size_t length) { return -ENOSYS; }
static inline struct folder_event folder_event_at(const void *buffer, size_t offset) {
    return (struct folder_event){0, folder_event_overflow, "", offset};
}
#endif
