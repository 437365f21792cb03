// reader read|write|list DIRECTORY PREFIX [KEY [VALUE]]: Benchmarks/Sources/CFloor as a command, for JSON values.
// reader show DIRECTORY PREFIX KEY [passcode|recovery-code|key]: an item of any format, as its number, a line feed, and the value.
// The secret is read from standard input. Status 2: there is no such item, or it has expired; 3: it does not open.

#include "floor.h"

#include <stdio.h>
#include <string.h>

enum { OK, CANNOT_OPEN, ABSENT, DOES_NOT_OPEN, USAGE = 64 };

static uint8_t value[1 << 20];

static floor_store *unlock(const char *directory, const char *kind) {
    static const char *const kinds[] = {[FLOOR_PASSCODE] = "passcode", [FLOOR_RECOVERY_CODE] = "recovery-code", [FLOOR_KEY] = "key"};
    static uint8_t secret[4096];
    for (int i = FLOOR_PASSCODE; i <= FLOOR_KEY; i++)
        if (!strcmp(kind, kinds[i])) {
            floor_secret given = {i, secret, fread(secret, 1, sizeof secret, stdin)};
            return floor_unlock(directory, &given);
        }
    return NULL;
}

static int show(floor_store *store, const char *prefix, const char *key) {
    int format = 0;
    long length = floor_read(store, prefix, key, value, sizeof value, &format);
    if (length < 0) return length == -1 ? ABSENT : DOES_NOT_OPEN;
    printf("%d\n", format);
    fwrite(value, 1, length, stdout);
    return OK;
}

static int run(floor_store *store, int count, char **arguments) {
    int format = 0;
    size_t bytes = 0;
    if (!strcmp(arguments[1], "show") && count >= 5) return show(store, arguments[3], arguments[4]);
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
        return USAGE;
    }
    return OK;
}

int main(int count, char **arguments) {
    if (count < 4) return USAGE;
    int has_secret = count == 6 && !strcmp(arguments[1], "show");
    floor_store *store = has_secret ? unlock(arguments[2], arguments[5]) : floor_open(arguments[2]);
    if (!store) return CANNOT_OPEN;
    int status = run(store, count, arguments);
    floor_close(store);
    return status;
}
