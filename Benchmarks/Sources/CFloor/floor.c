#include "floor.h"

#include "bytes.h"
#include "keybag.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { HEADER = 32, META_MAX = BOX + 33280, MAC = 32, VALUE_HEADER = 16 };

struct floor_store {
    char directory[4096], scope_prefix[256], scope_name[8 + 1 + NAME + 1];
    int root, tmp, items, scope;
    struct keys keys;
    const char *keybag;  // or its copy
    uint8_t keybag_hash[32];
};

// MARK: names

static void item_context(uint8_t context[53], const uint8_t *header, const uint8_t id[32]) {
    memcpy(context, header + 16, 16);
    context[16] = header[6];
    memcpy(context + 17, header + 8, 4);
    memcpy(context + 21, id, 32);
}

static void item_id(floor_store *s, const char *prefix, const char *key, uint8_t id[32]) {
    uint8_t input[8192 + 8];
    size_t p = strlen(prefix), k = strlen(key);
    put32(input, p);
    memcpy(input + 4, prefix, p);
    put32(input + 4 + p, k);
    memcpy(input + 8 + p, key, k);
    hash(id, 32, input, 8 + p + k, s->keys.key[ROLE_NAMES], KEY, "lockbox.name.v1");
}

// Authenticates the ID and the first bytes of a record.
static void mac(uint8_t out[MAC], const uint8_t id[32], const uint8_t *record, size_t n, const uint8_t key[KEY], const char *use) {
    uint8_t input[32 + HEADER + META_MAX];
    memcpy(input, id, 32);
    memcpy(input + 32, record, n);
    hash(out, MAC, input, 32 + n, key, KEY, use);
}

static int open_scope(floor_store *s, const char *prefix) {
    if (s->scope >= 0 && strcmp(prefix, s->scope_prefix) == 0) return 0;
    uint8_t input[4096 + 4], id[32];
    size_t p = strlen(prefix);
    put32(input, p);
    memcpy(input + 4, prefix, p);
    hash(id, 32, input, 4 + p, s->keys.key[ROLE_NAMES], KEY, "lockbox.scope.v1");
    uint8_t tag[32] = {0};
    memcpy(tag, s->keys.id, 16);
    base32(tag, s->scope_name);
    s->scope_name[8] = '-';
    base32(id, s->scope_name + 9);
    if (s->scope >= 0) close(s->scope);
    s->scope = openat(s->items, s->scope_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    snprintf(s->scope_prefix, sizeof s->scope_prefix, "%s", prefix);
    return s->scope < 0 ? -1 : 0;
}

// MARK: files

static long read_file(int directory, const char *name, uint8_t *out, size_t room, size_t *whole) {
    int fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) return -1;
    struct stat st;
    long n = -1;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 077) && st.st_nlink == 1) {
        size_t want = (size_t)st.st_size < room ? (size_t)st.st_size : room, got = 0;
        while (got < want && (n = read(fd, out + got, want - got)) > 0) got += n;
        n = got == want ? (long)got : -1;
        if (whole) *whole = st.st_size;
    }
    close(fd);
    return n;
}

// Of all bytes of the keybag: only they cannot repeat.
static int keybag_hash(floor_store *s, uint8_t hash[32]) {
    uint8_t bag[KEYBAG_MAX];
    long n = read_file(s->root, s->keybag, bag, sizeof bag, NULL);
    return n < 0 ? -1 : crypto_generichash(hash, 32, bag, n, NULL, 0);
}

// The folder's change count: odd while a file is renamed into it.
static int mark(int lock, int odd) {
    uint64_t count = 0;
    if (pread(lock, &count, sizeof count, 0) < 0) return -1;
    count = odd && count % 2 ? count + 2 : count + 1;
    return pwrite(lock, &count, sizeof count, 0) == sizeof count ? 0 : -1;
}

static int open_keys(floor_store *s, const char *device_key, const char *keybag, const floor_secret *secret) {
    uint8_t device[DEVICE_KEY_MAX], bag[KEYBAG_MAX];
    long length = read_file(s->root, device_key, device, sizeof device, NULL), n = read_file(s->root, keybag, bag, sizeof bag, NULL);
    if (length < 0 || n < 0) return -1;
    s->keybag = keybag;
    crypto_generichash(s->keybag_hash, 32, bag, n, NULL, 0);
    int failed = keybag_open(&s->keys, bag, n, device, length, secret) || !s->keys.is_open[ROLE_NAMES];
    sodium_memzero(device, sizeof device);
    sodium_memzero(bag, n);
    return failed;
}

floor_store *floor_open(const char *directory) { return floor_unlock(directory, NULL); }

floor_store *floor_unlock(const char *directory, const floor_secret *secret) {
    if (sodium_init() < 0) return NULL;
    floor_store *s = calloc(1, sizeof *s);
    snprintf(s->directory, sizeof s->directory, "%s", directory);
    s->scope = s->tmp = s->items = -1;
    s->root = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->root < 0) goto fail;
    s->tmp = openat(s->root, "tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    s->items = openat(s->root, "items", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    // Copies have the same bytes, for the case that one of the first is damaged.
    if (open_keys(s, "device-key", "keybag", secret) && open_keys(s, "device-key-copy", "keybag", secret)
        && open_keys(s, "device-key", "keybag-copy", secret) && open_keys(s, "device-key-copy", "keybag-copy", secret)) goto fail;
    return s;
fail:
    fprintf(stderr, "floor: cannot open %s\n", directory);
    free(s);
    return NULL;
}

void floor_close(floor_store *s) {
    close(s->root); close(s->tmp); close(s->items);
    if (s->scope >= 0) close(s->scope);
    sodium_memzero(s, sizeof *s);
    free(s);
}

// MARK: items

static int header_ok(floor_store *s, const uint8_t *record, size_t n, size_t *meta) {
    if (n < HEADER || memcmp(record, "LBXI\1\2", 6) || record[6] < 1 || record[6] > 7 || record[7]) return 0;
    *meta = get32(record + 12);
    return get32(record + 8) == s->keys.epoch && *meta >= BOX + 256 && *meta <= META_MAX && n >= HEADER + *meta + 2 * MAC
        && !memcmp(record + 16, s->keys.id, 16);
}

long floor_read(floor_store *s, const char *prefix, const char *key, uint8_t *out, size_t room, int *format) {
    uint8_t id[32], context[53], small[4096], *record = small;
    char name[NAME + 1];
    if (open_scope(s, prefix)) return -1;
    item_id(s, prefix, key, id);
    base32(id, name);
    size_t whole = 0, meta;
    long n = read_file(s->scope, name, record, sizeof small, &whole), result = -2;
    if (n < 0) return -1;
    if (whole > sizeof small) {
        record = malloc(whole);
        n = read_file(s->scope, name, record, whole, NULL);
    }
    if (header_ok(s, record, n, &meta) && s->keys.is_open[record[6]]) {
        item_context(context, record, id);
        size_t start = HEADER + meta + 2 * MAC;
        uint8_t *text = open_box(record + start, n - start, record, start, context, 53, s->keys.key[record[6]], "lockbox.value.v1");
        if (text) {
            uint32_t length = get32(text + 4);
            if (bucket(VALUE_HEADER + length) + BOX == n - start && length <= room) {
                result = getf(text + 8) <= now() ? -1 : (long)length;
                *format = text[0];
                memcpy(out, text + VALUE_HEADER, length);
            }
            sodium_memzero(text, n - start - BOX);
        }
    }
    if (record != small) free(record);
    return result;
}

// Opens the metadata in place: created, modified, expires, size, format, flags, four lengths, four texts.
// They must be those of the item with this ID.
static uint8_t *open_metadata(floor_store *s, uint8_t *record, size_t n, const uint8_t id[32]) {
    uint8_t context[53], expected[MAC], found[32];
    size_t meta;
    if (!header_ok(s, record, n, &meta)) return NULL;
    if (s->keys.is_open[record[6]]) {
        mac(expected, id, record, HEADER + meta, s->keys.key[record[6]], "lockbox.class.v1");
        if (sodium_memcmp(expected, record + HEADER + meta, MAC)) return NULL;
    }
    item_context(context, record, id);
    uint8_t *text = open_box(record + HEADER, meta, record, HEADER, context, 53, s->keys.key[ROLE_METADATA], "lockbox.meta.v1");
    if (!text) return NULL;
    size_t p = text[30] | text[31] << 8, k = text[32] | text[33] << 8;
    if (38 + p + k > meta - BOX) return NULL;
    char prefix[p + 1], key[k + 1];
    memcpy(prefix, text + 38, p), prefix[p] = 0;
    memcpy(key, text + 38 + p, k), key[k] = 0;
    item_id(s, prefix, key, found);
    return memcmp(found, id, 32) ? NULL : text;
}

enum { TEMPORARY = 8 + 32 + 1 };

// Seals an item and writes it to a new file in `tmp`, which stays open. Its descriptor, or -1.
static int create(floor_store *s, const uint8_t id[32], const char *prefix, const char *key, double created, const uint8_t *value, size_t length, int format, char temporary[TEMPORARY]) {
    size_t p = strlen(prefix), k = strlen(key), meta = BOX + ((38 + p + k + 255) & ~(size_t)255);
    size_t n = HEADER + meta + 2 * MAC + BOX + bucket(VALUE_HEADER + length);
    uint8_t small[4096], context[53], *record = n <= sizeof small ? small : malloc(n);
    memset(record, 0, n);
    memcpy(record, "LBXI\1\2\1", 7);  // class 1: whenUnlocked
    put32(record + 8, s->keys.epoch);
    put32(record + 12, meta);
    memcpy(record + 16, s->keys.id, 16);
    item_context(context, record, id);

    uint8_t *m = record + HEADER + NONCE + COMMIT;
    double t = now();
    putf(m, created < 0 ? t : created);
    putf(m + 8, t);
    putf(m + 16, 1.0 / 0.0);
    put32(m + 24, length);
    m[28] = format;
    put16(m + 30, p);
    put16(m + 32, k);
    memcpy(m + 38, prefix, p);
    memcpy(m + 38 + p, key, k);
    seal(record, HEADER, HEADER + meta, context, 53, s->keys.key[ROLE_METADATA], "lockbox.meta.v1");

    // In this class, there are random bytes in the place of the second MAC.
    size_t macs = HEADER + meta;
    mac(record + macs, id, record, macs, s->keys.key[1], "lockbox.class.v1");
    randombytes_buf(record + macs + MAC, MAC);

    uint8_t *v = record + macs + 2 * MAC + NONCE + COMMIT;
    v[0] = format;
    put32(v + 4, length);
    putf(v + 8, 1.0 / 0.0);
    memcpy(v + VALUE_HEADER, value, length);
    seal(record, macs + 2 * MAC, n, context, 53, s->keys.key[1], "lockbox.value.v1");

    uint64_t random[2];
    randombytes_buf(random, sizeof random);
    snprintf(temporary, TEMPORARY, "lockbox-%016llx%016llx", (unsigned long long)random[0], (unsigned long long)random[1]);
    int fd = openat(s->tmp, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0 && (fchmod(fd, 0600) || write(fd, record, n) != (ssize_t)n)) {
        close(fd);
        unlinkat(s->tmp, temporary, 0);
        fd = -1;
    }
    if (record != small) free(record);
    return fd;
}

static int store(floor_store *s, const char *name, const uint8_t id[32], const char *prefix, const char *key, double created, const uint8_t *value, size_t length, int format, int sync,
                 int lock) {
    char temporary[TEMPORARY];
    int fd = create(s, id, prefix, key, created, value, length, format, temporary), result = -1;
    if (fd >= 0) {
        int ok = !sync || fsync(fd) == 0;
        ok = close(fd) == 0 && ok && (lock < 0 || mark(lock, 1) == 0)
            && renameat(s->tmp, temporary, s->scope, name) == 0 && (lock < 0 || mark(lock, 0) == 0);
        if (ok) result = sync ? fsync(s->scope) : 0;
        else unlinkat(s->tmp, temporary, 0);
    }
    return result;
}

int floor_write_batch(floor_store *s, const char *prefix, const char *const *keys, size_t count, const uint8_t *value, size_t length, int format, size_t at_once) {
    if (!s->keys.is_open[1] || open_scope(s, prefix)) return -1;
    for (size_t start = 0; start < count; start += at_once) {
        size_t n = count - start < at_once ? count - start : at_once;
        char names[n][NAME + 1], temporaries[n][TEMPORARY];
        int files[n];
        for (size_t i = 0; i < n; i++) {
            uint8_t id[32];
            item_id(s, prefix, keys[start + i], id);
            base32(id, names[i]);
            files[i] = create(s, id, prefix, keys[start + i], -1, value, length, format, temporaries[i]);
            if (files[i] < 0) return -1;
        }
        for (size_t i = 0; i < n; i++)
            if (fsync(files[i]) || close(files[i])) return -1;
        for (size_t i = 0; i < n; i++)
            if (renameat(s->tmp, temporaries[i], s->scope, names[i])) return -1;
    }
    return fsync(s->scope);
}

int floor_write(floor_store *s, const char *prefix, const char *key, const uint8_t *value, size_t length, int format) {
    uint8_t id[32], old[HEADER + META_MAX + 2 * MAC];
    char name[NAME + 1];
    struct stat a, b;
    uint8_t now[32];
    double created = -1;
    if (!s->keys.is_open[1] || open_scope(s, prefix)) return -1;
    item_id(s, prefix, key, id);
    base32(id, name);
    if (stat(s->directory, &a) || fstat(s->root, &b) || a.st_ino != b.st_ino) return -1;
    int lock = openat(s->scope, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600), result = -1;
    if (lock < 0 || flock(lock, LOCK_EX)) return -1;
    if (fstat(lock, &a) == 0 && fstatat(s->scope, "lock", &b, AT_SYMLINK_NOFOLLOW) == 0 && a.st_ino == b.st_ino
        && keybag_hash(s, now) == 0 && !memcmp(now, s->keybag_hash, sizeof now)) {
        long n = read_file(s->scope, name, old, sizeof old, NULL);
        uint8_t *metadata = n > 0 ? open_metadata(s, old, n, id) : NULL;
        if (metadata) created = getf(metadata);
        result = store(s, name, id, prefix, key, created, value, length, format, 1, lock);
    }
    close(lock);
    return result;
}

static int write_bare(floor_store *s, const char *prefix, const char *key, const uint8_t *value, size_t length, int format, int sync) {
    uint8_t id[32];
    char name[NAME + 1];
    if (!s->keys.is_open[1] || open_scope(s, prefix)) return -1;
    item_id(s, prefix, key, id);
    base32(id, name);
    return store(s, name, id, prefix, key, -1, value, length, format, sync, -1);
}

int floor_write_bare(floor_store *s, const char *prefix, const char *key, const uint8_t *value, size_t length, int format) {
    return write_bare(s, prefix, key, value, length, format, 1);
}

int floor_write_unsynced(floor_store *s, const char *prefix, const char *key, const uint8_t *value, size_t length, int format) {
    return write_bare(s, prefix, key, value, length, format, 0);
}

static uint64_t change_count(int scope) {
    uint64_t count = 0;
    return read_file(scope, "lock", (uint8_t *)&count, sizeof count, NULL) < 0 ? 0 : count;
}

// All names first, and again if a file was renamed meanwhile: see OnDiskFormat.md.
static size_t names_of(int scope, uint8_t (**ids)[32]) {
    while (1) {
        uint64_t before = change_count(scope);
        DIR *directory = fdopendir(openat(scope, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        struct dirent *entry;
        size_t count = 0, room = 0;
        *ids = NULL;
        while ((entry = readdir(directory))) {
            if (count == room) *ids = realloc(*ids, (room = room ? 2 * room : 64) * sizeof **ids);
            if (unbase32(entry->d_name, (*ids)[count])) count++;
        }
        closedir(directory);
        if (before % 2 == 0 && change_count(scope) == before) return count;
        free(*ids);
    }
}

long floor_list(floor_store *s, const char *prefix, size_t *name_bytes) {
    uint8_t (*ids)[32];
    *name_bytes = 0;
    if (open_scope(s, prefix)) return 0;
    size_t count = names_of(s->scope, &ids), found = 0;
    struct item { char *prefix, *key; uint8_t attributes[38]; } *items = calloc(count, sizeof *items);
    for (size_t i = 0; i < count; i++) {
        uint8_t record[HEADER + META_MAX + 2 * MAC];
        char name[NAME + 1];
        base32(ids[i], name);
        long n = read_file(s->scope, name, record, sizeof record, NULL);
        uint8_t *metadata = n > 0 ? open_metadata(s, record, n, ids[i]) : NULL;
        if (!metadata) return -2;
        // A caller gets copies of prefix, key and attributes.
        size_t p = metadata[30] | metadata[31] << 8, k = metadata[32] | metadata[33] << 8;
        items[found].prefix = strndup((char *)metadata + 38, p);
        items[found].key = strndup((char *)metadata + 38 + p, k);
        memcpy(items[found].attributes, metadata, sizeof items->attributes);
        *name_bytes += k;
        found++;
    }
    for (size_t i = 0; i < found; i++) free(items[i].prefix), free(items[i].key);
    return free(items), free(ids), found;
}
