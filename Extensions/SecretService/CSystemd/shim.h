// sd-bus, and calls on sockets that Swift's modules of the C library do not have.
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
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

// Returns the next connection with the user of its other end, as the kernel knows it, or -errno.
static inline int accept_peer(int listener, uid_t *user) {
    int peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (peer < 0) return -errno;
    struct ucred credentials;
    socklen_t size = sizeof credentials;
    if (getsockopt(peer, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
        int error = errno;
        close(peer);
        return -error;
    }
    *user = credentials.uid;
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

// How many bytes of memory are in use.
static inline size_t allocated_bytes(void) {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}
