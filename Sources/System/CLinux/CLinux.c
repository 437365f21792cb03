#define _GNU_SOURCE
#include "CLinux.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef __linux__
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

const char *trusted_environment(const char *name) { return secure_getenv(name); }

int has_access_control_list(int file) {
    return fgetxattr(file, "system.posix_acl_access", NULL, 0) > 0;
}

int file_is_on_fuse(int file) {
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

void file_set_waiting(int file, int is_waiting) {
    struct flock mark = waiting_mark(is_waiting ? F_RDLCK : F_UNLCK);
    (void)fcntl(file, LOCKBOX_OFD_SETLK, &mark);
}

int file_is_waited_for(int file) {
    struct flock mark = waiting_mark(F_WRLCK);
    return fcntl(file, LOCKBOX_OFD_GETLK, &mark) == 0 && mark.l_type != F_UNLCK;
}

#define LOCKBOX_WIPEONFORK 18  // MADV_WIPEONFORK, which some headers show to GNU programs only

int wipe_on_fork(const void *start, size_t length) {
    uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)start / size * size;
    uintptr_t end = ((uintptr_t)start + length + size - 1) / size * size;
    return madvise((void *)first, end - first, LOCKBOX_WIPEONFORK) == 0;
}

long *page_wiped_on_fork(void) {
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | 0x20 /* MAP_ANONYMOUS */, -1, 0);
    return page != MAP_FAILED && wipe_on_fork(page, size) ? page : NULL;
}

static inline long kernel_keyring_result(long result) { return result < 0 ? -errno : result; }

long kernel_key_add(const char *description, const void *payload, size_t length) {
    return kernel_keyring_result(
        syscall(SYS_add_key, "user", description, payload, length, KEY_SPEC_PROCESS_KEYRING));
}

long kernel_key_search(const char *description) {
    return kernel_keyring_result(
        syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_USER_KEYRING, "user", description, 0));
}

long kernel_key_read(int32_t key, void *buffer, size_t length) {
    return kernel_keyring_result(syscall(SYS_keyctl, KEYCTL_READ, key, buffer, length));
}

long kernel_key_update(int32_t key, const void *payload, size_t length) {
    return kernel_keyring_result(syscall(SYS_keyctl, KEYCTL_UPDATE, key, payload, length));
}

long kernel_key_set_permissions(int32_t key, uint32_t permissions) {
    return kernel_keyring_result(syscall(SYS_keyctl, KEYCTL_SETPERM, key, permissions));
}

long kernel_key_set_timeout(int32_t key, uint32_t seconds) {
    return kernel_keyring_result(syscall(SYS_keyctl, KEYCTL_SET_TIMEOUT, key, seconds));
}

long kernel_key_publish(int32_t key) {
    return kernel_keyring_result(syscall(SYS_keyctl, KEYCTL_LINK, key, KEY_SPEC_USER_KEYRING));
}

long kernel_key_withdraw(int32_t key) {
    return kernel_keyring_result(syscall(SYS_keyctl, KEYCTL_UNLINK, key, KEY_SPEC_PROCESS_KEYRING));
}

long kernel_key_revoke(int32_t key) {
    return kernel_keyring_result(syscall(SYS_keyctl, KEYCTL_REVOKE, key));
}

int kernel_key_is_gone(long result) {
    return result == 0 || result == -EKEYREVOKED || result == -EKEYEXPIRED || result == -ENOKEY;
}

long kernel_key_unlink(int32_t key) {
    return kernel_keyring_result(syscall(SYS_keyctl, KEYCTL_UNLINK, key, KEY_SPEC_USER_KEYRING));
}

long kernel_key_lock(void) {
    int file = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
    if (file < 0) return -errno;
    if (flock(file, LOCK_EX | LOCK_NB) == 0) return file;
    int error = errno;
    close(file);
    return -error;
}

static inline long folder_watch_result(long result) { return result < 0 ? -errno : result; }

long folder_watch_open(void) { return folder_watch_result(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)); }

long folder_watch_open_stop(void) { return folder_watch_result(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)); }

void folder_watch_stop(int stop) { (void)eventfd_write(stop, 1); }

long folder_watch_add(int watches, const char *path) {
    uint32_t events = IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF;
    return folder_watch_result(inotify_add_watch(watches, path, events | IN_ONLYDIR));
}

long folder_watch_read(int watches, int stop, void *buffer, size_t length) {
    struct pollfd files[] = {{.fd = stop, .events = POLLIN}, {.fd = watches, .events = POLLIN}};
    while (1) {
        if (poll(files, 2, -1) < 0 && errno != EINTR) return -errno;
        if (files[0].revents) return 0;
        ssize_t result = read(watches, buffer, length);
        if (result >= 0 || (errno != EINTR && errno != EAGAIN)) return folder_watch_result(result);
    }
}

struct folder_event folder_event_at(const void *buffer, size_t offset) {
    const struct inotify_event *event = (const void *)((const char *)buffer + offset);
    enum folder_event_kind kind = folder_event_entry;
    if (event->mask & IN_Q_OVERFLOW) kind = folder_event_overflow;
    else if (event->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED | IN_UNMOUNT)) kind = folder_event_folder;
    return (struct folder_event){event->wd, kind, event->len ? event->name : "", offset + sizeof *event + event->len};
}
#else

const char *trusted_environment(const char *name) { return issetugid() ? NULL : getenv(name); }
int wipe_on_fork(const void *start, size_t length) { return 0; }
long *page_wiped_on_fork(void) { return NULL; }
void file_set_waiting(int file, int is_waiting) {}
int file_is_waited_for(int file) { return 0; }
int has_access_control_list(int file) { return 0; }
int file_is_on_fuse(int file) { return 0; }
long kernel_key_add(const char *description, const void *payload, size_t length) { return -ENOSYS; }
long kernel_key_search(const char *description) { return -ENOSYS; }
long kernel_key_read(int32_t key, void *buffer, size_t length) { return -ENOSYS; }
long kernel_key_update(int32_t key, const void *payload, size_t length) { return -ENOSYS; }
long kernel_key_set_permissions(int32_t key, uint32_t permissions) { return -ENOSYS; }
long kernel_key_set_timeout(int32_t key, uint32_t seconds) { return -ENOSYS; }
long kernel_key_publish(int32_t key) { return -ENOSYS; }
long kernel_key_withdraw(int32_t key) { return -ENOSYS; }
long kernel_key_revoke(int32_t key) { return -ENOSYS; }
int kernel_key_is_gone(long result) { return 1; }
long kernel_key_unlink(int32_t key) { return -ENOSYS; }
long kernel_key_lock(void) { return -ENOSYS; }
long folder_watch_open(void) { return -ENOSYS; }
long folder_watch_open_stop(void) { return -ENOSYS; }
void folder_watch_stop(int stop) {}
long folder_watch_add(int watches, const char *path) { return -ENOSYS; }
long folder_watch_read(int watches, int stop, void *buffer, size_t length) { return -ENOSYS; }
struct folder_event folder_event_at(const void *buffer, size_t offset) {
    return (struct folder_event){0, folder_event_overflow, "", offset};
}
#endif
