// reader read|write|list DIRECTORY PREFIX [KEY [VALUE]]: Benchmarks/Sources/CFloor as a command, for JSON values.

#include "floor.h"

#include <stdio.h>
#include <string.h>

int main(int count, char **arguments) {
    static uint8_t value[65536];
    if (count < 4) return 64;
    floor_store *store = floor_open(arguments[2]);
    if (!store) return 1;
    int format = 0;
    size_t bytes = 0;
    if (!strcmp(arguments[1], "read") && count == 5) {
        long length = floor_read(store, arguments[3], arguments[4], value, sizeof value, &format);
        if (length < 0 || format != 2) return 1;
        fwrite(value, 1, length, stdout);
    } else if (!strcmp(arguments[1], "write") && count == 6) {
        const uint8_t *text = (const uint8_t *)arguments[5];
        if (floor_write(store, arguments[3], arguments[4], text, strlen(arguments[5]), 2)) return 1;
    } else if (!strcmp(arguments[1], "list") && count == 4) {
        printf("%ld", floor_list(store, arguments[3], &bytes));
    } else {
        return 64;
    }
    floor_close(store);
    return 0;
}
