// Writers that do what Lockbox does for a write, with the kernel's blocking flock: what the kernel itself gives.
//
//     kernel DIRECTORY PREFIX SECONDS KEY
//
// Says "ready", begins at a line of standard input, and prints how long each write took, in nanoseconds.
#include "floor.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static long long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(int count, char **arguments) {
    if (count != 5) return 64;
    floor_store *store = floor_open(arguments[1]);
    if (!store) return 1;
    uint8_t value[256];
    for (int i = 0; i < 256; i++) value[i] = i;
    size_t room = 1 << 18, calls = 0;
    long long *times = malloc(room * sizeof *times);
    puts("ready");
    fflush(stdout);
    getchar();
    long long start = now(), end = start + atof(arguments[3]) * 1e9;
    while (start < end) {
        if (floor_write(store, arguments[2], arguments[4], value, sizeof value, 1)) return 2;
        if (calls == room) times = realloc(times, (room *= 2) * sizeof *times);
        long long stop = now();
        times[calls++] = stop - start;
        start = stop;
    }
    printf("times\t");
    for (size_t i = 0; i < calls; i++) printf("%lld ", times[i]);
    putchar('\n');
    floor_close(store);
}
