// Numbers, times, lengths and names as the format writes them.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

enum { NAME = 52 };

static inline uint32_t get32(const uint8_t *p) { return p[0] | p[1] << 8 | p[2] << 16 | (uint32_t)p[3] << 24; }
static inline uint64_t get64(const uint8_t *p) { return get32(p) | (uint64_t)get32(p + 4) << 32; }
static inline void put16(uint8_t *p, uint16_t v) { p[0] = v; p[1] = v >> 8; }
static inline void put32(uint8_t *p, uint32_t v) { put16(p, v); put16(p + 2, v >> 16); }
static inline void put64(uint8_t *p, uint64_t v) { put32(p, v); put32(p + 4, v >> 32); }
static inline double getf(const uint8_t *p) { uint64_t v = get64(p); double d; memcpy(&d, &v, 8); return d; }
static inline void putf(uint8_t *p, double d) { uint64_t v; memcpy(&v, &d, 8); put64(p, v); }

static inline double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec - 978307200.0 + t.tv_nsec / 1e9;  // seconds since 2001-01-01
}

static inline size_t bucket(size_t n) {
    if (n <= 256) return 256;
    if (n <= 4096) { size_t b = 256; while (b < n) b *= 2; return b; }
    int e = 63 - __builtin_clzll(n), s = 64 - __builtin_clzll(e);
    size_t mask = ((size_t)1 << (e - s)) - 1;
    return (n + mask) & ~mask;
}

static inline void base32(const uint8_t id[32], char name[NAME + 1]) {
    static const char digits[] = "abcdefghijklmnopqrstuvwxyz234567";
    uint64_t bits = 0;
    int count = 0, next = 0;
    for (int i = 0; i < 32; i++) {
        bits = bits << 8 | id[i];
        for (count += 8; count >= 5; count -= 5) name[next++] = digits[bits >> (count - 5) & 31];
    }
    name[next++] = digits[bits << (5 - count) & 31];
    name[next] = 0;
}

static inline int unbase32(const char *name, uint8_t id[32]) {
    if (strlen(name) != NAME) return 0;
    uint64_t bits = 0;
    int count = 0, next = 0;
    for (int i = 0; i < NAME; i++) {
        char c = name[i];
        int digit = c >= 'a' && c <= 'z' ? c - 'a' : c >= '2' && c <= '7' ? c - '2' + 26 : -1;
        if (digit < 0) return 0;
        bits = bits << 5 | digit;
        if ((count += 5) >= 8) { count -= 8; id[next++] = bits >> count; bits &= ((uint64_t)1 << count) - 1; }
    }
    return bits == 0;
}
