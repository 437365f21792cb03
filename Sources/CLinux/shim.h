// What Linux has, and Swift's Glibc module has not: the system calls of keyrings(7), access control lists, and locks of open
// file descriptions. Results are the kernel's: a negative one is -errno. Where there is no such kernel, every call answers
// that it does not exist.
#pragma once
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __linux__
#include <fcntl.h>
#include <linux/keyctl.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

// Whether an open file has an access control list: the permissions of its group are another thing then, acl(5).
static inline int has_access_control_list(int file) {
    return fgetxattr(file, "system.posix_acl_access", NULL, 0) > 0;
}

// A shared lock, F_OFD_SETLK of fcntl(2), on one byte far behind the end of the file: it says that somebody waits for the
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

static inline long kernel_keyring_result(long result) { return result < 0 ? -errno : result; }

// Into the keyring of this process, where nobody else sees it.
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

// Whether nobody reads a key any more, by what its revocation has answered.
static inline int kernel_key_is_gone(long result) {
    return result == 0 || result == -EKEYREVOKED || result == -EKEYEXPIRED || result == -ENOKEY;
}

static inline long kernel_key_unlink(int32_t key) {
    return kernel_keyring_result(syscall(SYS_keyctl, KEYCTL_UNLINK, key, KEY_SPEC_USER_KEYRING));
}
#else
static inline void file_set_waiting(int file, int is_waiting) {}
static inline int file_is_waited_for(int file) { return 0; }
static inline int has_access_control_list(int file) { return 0; }
static inline long kernel_key_add(const char *description, const void *payload, size_t length) { return -ENOSYS; }
static inline long kernel_key_search(const char *description) { return -ENOSYS; }
static inline long kernel_key_read(int32_t key, void *buffer, size_t length) { return -ENOSYS; }
static inline long kernel_key_set_permissions(int32_t key, uint32_t permissions) { return -ENOSYS; }
static inline long kernel_key_set_timeout(int32_t key, uint32_t seconds) { return -ENOSYS; }
static inline long kernel_key_publish(int32_t key) { return -ENOSYS; }
static inline long kernel_key_withdraw(int32_t key) { return -ENOSYS; }
static inline long kernel_key_revoke(int32_t key) { return -ENOSYS; }
static inline int kernel_key_is_gone(long result) { return 1; }
static inline long kernel_key_unlink(int32_t key) { return -ENOSYS; }
#endif
