// sd-bus, and calls on sockets that Swift's modules of the C library do not have.
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/un.h>
#include <systemd/sd-bus.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <unistd.h>

static const int unix_stream = SOCK_STREAM;  // an enumeration's on some systems only

// Returns a socket that listens at a path, which only this user may connect to, or -errno. This process has one thread: for a
// moment, the files that it makes are this user's alone.
static inline int listen_at(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) return -ENAMETOOLONG;
    strcpy(address.sun_path, path);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener < 0) return -errno;
    mode_t mask = umask(0177);
    int failed = bind(listener, (struct sockaddr *)&address, sizeof address) != 0;
    int error = errno;
    umask(mask);
    if (!failed && listen(listener, 128) == 0) return listener;
    if (!failed) error = errno;
    close(listener);
    return -error;
}

// Whether a process may listen at a path: only a refusal says that none does.
static inline int is_listened_at(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) return 0;
    strcpy(address.sun_path, path);
    int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int result = client < 0 || connect(client, (struct sockaddr *)&address, sizeof address) == 0
        || (errno != ECONNREFUSED && errno != ENOENT);
    if (client >= 0) close(client);
    return result;
}

// Returns the next connection with the user and the process of its other end, as the kernel knows them, or -errno.
static inline int accept_peer(int listener, uid_t *user, pid_t *process) {
    // Neither accept4 nor struct ucred: with _GNU_SOURCE, types would differ from those of Swift's module of the C library.
    int peer = accept(listener, NULL, NULL);
    if (peer < 0) return -errno;
    struct { pid_t process; uid_t user; gid_t group; } credentials;
    socklen_t size = sizeof credentials;
    if (fcntl(peer, F_SETFD, FD_CLOEXEC) != 0 || fcntl(peer, F_SETFL, O_NONBLOCK) != 0
        || getsockopt(peer, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
        int error = errno;
        close(peer);
        return -error;
    }
    *user = credentials.user;
    *process = credentials.process;
    return peer;
}

// When a name in a folder was last added, replaced or removed. Opening it, a network file system asks its server. Returns 0 or -errno.
static inline int folder_time(const char *path, struct timespec *time) {
    struct stat status;
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return -errno;
    int result = fstat(folder, &status) == 0 ? 0 : -errno;
    close(folder);
    *time = status.st_ctim;  // no program can set it back
    return result;
}

// Connects to the bus at an address, or to the user's. Returns 0 or -errno: ENOENT also if there is no address.
static inline int open_bus(sd_bus **bus, const char *address) {
    int result = address ? sd_bus_new(bus) : sd_bus_open_user(bus);
    if (!address) return result == -ENOMEDIUM ? -ENOENT : result;
    if (result >= 0) result = sd_bus_set_address(*bus, address);
    if (result >= 0) result = sd_bus_set_bus_client(*bus, 1);
    return result >= 0 ? sd_bus_start(*bus) : result;
}

// Begins to watch the names in a folder. Returns a descriptor that does not wait, or -1: also for a file system that other machines may
// change, of which the kernel does not tell.
static inline int watch_local_folder(const char *path) {
    static const uint32_t local[] = {0xEF53, 0x9123683E, 0x58465342, 0x01021994, 0x794C7630, 0xF2F52010, 0x2FC12FC1, 0xCA451A4E};
    struct statfs status;
    if (statfs(path, &status) != 0) return -1;
    int is_local = 0;
    for (size_t i = 0; i < sizeof local / sizeof *local; i++) is_local |= (uint32_t)status.f_type == local[i];
    int file = is_local ? inotify_init1(IN_CLOEXEC | IN_NONBLOCK) : -1;
    uint32_t events = IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;
    if (file >= 0 && inotify_add_watch(file, path, events) < 0) {
        close(file);
        return -1;
    }
    return file;
}

// Returns the name in the event at an offset, which becomes that of the next one, or NULL if anything may have changed.
static inline const char *watched_name(const char *buffer, ptrdiff_t *offset) {
    const struct inotify_event *event = (const struct inotify_event *)(buffer + *offset);
    *offset += (ptrdiff_t)(sizeof *event + event->len);
    return event->mask & (IN_Q_OVERFLOW | IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED | IN_UNMOUNT) || event->len == 0 ? NULL : event->name;
}

// Writes the name of a process's program, at most 15 bytes, or nothing if it is not known.
static inline void program_name(uint32_t process, char name[32]) {
    snprintf(name, 32, "/proc/%u/comm", process);
    int file = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? 0 : read(file, name, 31);
    name[length > 0 ? length : 0] = 0;
    name[strcspn(name, "\n")] = 0;
    if (file >= 0) close(file);
}

// How many bytes of memory are in use.
static inline size_t allocated_bytes(void) {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}
