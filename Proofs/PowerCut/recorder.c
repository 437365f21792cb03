// A file system of two files, which records what a loop device on one of them writes.
//
//     recorder MOUNTPOINT DISK LOG
//
// `disk` is the file DISK; `marks` takes a line of text. Each write, flush and mark is appended to LOG in the order in
// which it arrives: three 64-bit numbers (kind, offset, length), and the bytes. It runs in the foreground and in one
// thread, so that the order in LOG is the order on the disk.

#define FUSE_USE_VERSION 31
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { WRITE = 1, FLUSH = 2, MARK = 3 };

static int disk, log_file;

static int is_disk(const char *path) { return strcmp(path, "/disk") == 0; }

static int is_marks(const char *path) { return strcmp(path, "/marks") == 0; }

static int record(enum kind kind, off_t offset, const char *bytes, size_t length) {
    uint64_t header[3] = {kind, (uint64_t)offset, length};
    struct iovec parts[2] = {{header, sizeof header}, {(void *)bytes, length}};
    ssize_t written = writev(log_file, parts, 2);
    return written == (ssize_t)(sizeof header + length) ? 0 : -EIO;
}

static int get_attributes(const char *path, struct stat *status, struct fuse_file_info *info) {
    (void)info;
    memset(status, 0, sizeof *status);
    if (strcmp(path, "/") == 0) {
        status->st_mode = S_IFDIR | 0700;
        status->st_nlink = 2;
        return 0;
    }
    if (!is_disk(path) && !is_marks(path)) return -ENOENT;
    if (fstat(disk, status) < 0) return -errno;
    if (is_marks(path)) status->st_size = 0;
    status->st_mode = S_IFREG | 0600;
    status->st_nlink = 1;
    return 0;
}

static int open_file(const char *path, struct fuse_file_info *info) {
    if (!is_disk(path) && !is_marks(path)) return -ENOENT;
    info->direct_io = 1; // the kernel keeps nothing back
    return 0;
}

static int read_file(const char *path, char *bytes, size_t length, off_t offset, struct fuse_file_info *info) {
    (void)info;
    if (!is_disk(path)) return 0;
    ssize_t result = pread(disk, bytes, length, offset);
    return result < 0 ? -errno : (int)result;
}

static int write_file(const char *path, const char *bytes, size_t length, off_t offset, struct fuse_file_info *info) {
    (void)info;
    if (is_disk(path) && pwrite(disk, bytes, length, offset) != (ssize_t)length) return -EIO;
    int failure = record(is_disk(path) ? WRITE : MARK, offset, bytes, length);
    return failure ? failure : (int)length;
}

static int synchronize(const char *path, int is_data_only, struct fuse_file_info *info) {
    (void)is_data_only, (void)info;
    return is_disk(path) ? record(FLUSH, 0, NULL, 0) : 0;
}

static const struct fuse_operations operations = {
    .getattr = get_attributes, .open = open_file, .read = read_file, .write = write_file, .fsync = synchronize,
};

int main(int count, char **arguments) {
    if (count != 4) return 64;
    disk = open(arguments[2], O_RDWR | O_CLOEXEC);
    log_file = open(arguments[3], O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    if (disk < 0 || log_file < 0) {
        perror("recorder");
        return 1;
    }
    char *options[] = {arguments[0], "-f", "-s", arguments[1], NULL};
    return fuse_main(4, options, &operations, NULL);
}
