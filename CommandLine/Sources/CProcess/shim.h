// Protects the memory of the process, with calls that Swift's modules of the C library do not have.
#pragma once
#ifdef __APPLE__
#define __STDC_WANT_LIB_EXT1__ 1
#endif
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

// Other programs of the user can neither read the memory of this process nor trace it, until it runs another program.
static inline void forbid_reading_memory(void) {
#ifdef __linux__
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
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

// Overwrites memory with zeros, also if it is never read again.
static inline void wipe_memory(void *memory, size_t size) {
#ifdef __APPLE__
    memset_s(memory, size, 0, size);
#else
    explicit_bzero(memory, size);
#endif
}
