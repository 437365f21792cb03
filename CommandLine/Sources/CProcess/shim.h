// Calls that Swift's modules of the C library do not have.
#pragma once
#ifdef __APPLE__
#define __STDC_WANT_LIB_EXT1__ 1
#endif
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/keyctl.h>
#include <linux/magic.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#endif

// Other programs of the user can neither read the memory of this process nor trace it, until it runs another program.
static inline void forbid_reading_memory(void) {
#ifdef __linux__
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
#endif
}

// Whether the kernel keeps keys for the user of this process. Some containers forbid it.
static inline int has_user_keyring(void) {
#ifdef __linux__
    return syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_KEYRING, 1) >= 0;
#else
    return 1;
#endif
}

// Sets the soft limit of the size of core dumps, and returns the one before.
static inline uint64_t replace_core_limit(uint64_t size) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_CORE, &limit) != 0) return size;
    uint64_t before = limit.rlim_cur;
    limit.rlim_cur = (rlim_t)size;
    setrlimit(RLIMIT_CORE, &limit);
    return before;
}

// Whether files in a folder are in memory, and on no disk.
static inline int is_in_memory(const char *folder) {
#ifdef __linux__
    struct statfs status;
    return statfs(folder, &status) == 0 && status.f_type == TMPFS_MAGIC;
#else
    return 0;
#endif
}

// Overwrites memory with zeros, also if it is never read again.
static inline void wipe_memory(void *memory, size_t size) {
#ifdef __APPLE__
    memset_s(memory, size, 0, size);
#else
    explicit_bzero(memory, size);
#endif
}

// Whether this process ignores a signal, for example because of nohup.
static inline int is_ignored(int number) {
    struct sigaction action;
    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

static inline void ignore_signals(int ignores) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGXFSZ};
    static void (*before[sizeof signals / sizeof *signals])(int);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        if (ignores) before[i] = signal(signals[i], SIG_IGN);
        else signal(signals[i], before[i]);
    }
}

// The passcode is for this process, and not for the programs that it starts.
static inline void remove_passcode(void) { unsetenv("LOCKBOX_PASSCODE"); }

// Starts a program with pipes as its standard input and output, and returns its process, or -1. Until ignore_signals(0), what a terminal
// or a service manager sends to both ends only the program. A detached one has a session of its own, without a terminal. Its exit status
// is 127 if there is none, and 126 if it cannot be run.
static inline pid_t start_with_pipes(char *const *arguments, uint64_t core_limit, int is_detached, int *input, int *output) {
    int in[2], out[2];
    remove_passcode();
    if (pipe(in) != 0) return -1;
    if (pipe(out) != 0) {
        close(in[0]), close(in[1]);
        return -1;
    }
    fcntl(in[1], F_SETFD, FD_CLOEXEC), fcntl(out[0], F_SETFD, FD_CLOEXEC);
    ignore_signals(1);
    // If it were ignored, as some supervisors leave it, the exit status would be lost.
    void (*children)(int) = signal(SIGCHLD, SIG_DFL);
    pid_t program = fork();
    if (program == 0) {
        signal(SIGCHLD, children);
        dup2(in[0], STDIN_FILENO), dup2(out[1], STDOUT_FILENO);
        close(in[0]), close(out[1]);
        if (is_detached) setsid();
        ignore_signals(0);
        sigset_t none;  // the threads of tasks block signals
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        replace_core_limit(core_limit);
        execvp(arguments[0], arguments);
        _exit(errno == ENOENT ? 127 : 126);
    }
    close(in[0]), close(out[1]);
    *input = in[1], *output = out[0];
    if (program < 0) close(in[1]), close(out[0]);
    return program;
}

#ifdef __linux__
// Returns a descriptor that can be read once a child has ended, or a signal is there which is meant for it; or -1.
static inline int open_signals(sigset_t *before) {
    static const int numbers[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
    sigset_t signals;
    sigemptyset(&signals);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i] == SIGCHLD || !is_ignored(numbers[i])) sigaddset(&signals, numbers[i]);
    signal(SIGCHLD, SIG_DFL);  // if it were ignored, exit statuses would be lost
    sigprocmask(SIG_BLOCK, &signals, before);
    return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

// Returns the next signal, or 0 if there is none. What a terminal sends, it sends to the child too.
static inline int next_signal(int file, int *is_from_terminal) {
    struct signalfd_siginfo signal;
    if (read(file, &signal, sizeof signal) != sizeof signal) return 0;
    *is_from_terminal = signal.ssi_code > 0;
    return (int)signal.ssi_signo;
}

// Starts a program with a mask of signals. Returns 0, or the reason why it cannot run.
static inline int start_program(char *const *arguments, const sigset_t *mask, pid_t *program) {
    extern char **environ;
    remove_passcode();
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, mask);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    int error = posix_spawnp(program, arguments[0], NULL, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    return error;
}
#endif

// Replaces this process with a program, as execvp(3), and with more environment variables, each NAME=VALUE. One of them may be PATH:
// the program is looked for in the one from before. Returns only if it does not exist or cannot be run, with the reason.
static inline int replace_process(char *const *arguments, char *const *variables) {
    extern char **environ;
    remove_passcode();
    char *path = getenv("PATH"), *before[] = {path ? path - strlen("PATH=") : NULL, NULL};
    while (*variables)
        if (putenv(*variables++) != 0) return errno;
#ifdef __APPLE__
    execvP(arguments[0], path ? path : "/usr/bin:/bin", arguments);
#else
    char **after = environ;
    environ = before;
    execvpe(arguments[0], arguments, after);
    environ = after;
    // The last folder of PATH says nothing about the program.
    if (!strchr(arguments[0], '/') && (errno == ENOTDIR || errno == ENODEV || errno == ESTALE || errno == ETIMEDOUT))
        errno = ENOENT;
#endif
    return errno;
}
