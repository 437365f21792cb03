// The on-disk format of Lockbox in plain C and libsodium, written from its specification: the floor that the
// benchmarks measure against, and a second reader of the format.
#ifndef LOCKBOX_FLOOR_H
#define LOCKBOX_FLOOR_H

#include <stddef.h>
#include <stdint.h>

typedef struct floor_store floor_store;

// The kind of a slot's secret. A passcode is in Unicode normalization form C: no normalization here.
enum floor_kind { FLOOR_PASSCODE = 1, FLOOR_RECOVERY_CODE = 2, FLOOR_KEY = 3 };

typedef struct floor_secret {
    enum floor_kind kind;
    const uint8_t *bytes;
    size_t length;
} floor_secret;

// Opens an existing store. If it has slots, only the classes that need none are open. NULL if it cannot be read; a line on stderr
// says so.
floor_store *floor_open(const char *directory);

// Opens a store with the secret of one of its slots. NULL also if there is no such slot.
floor_store *floor_unlock(const char *directory, const floor_secret *secret);
void floor_close(floor_store *store);

// The value's bytes go to `out`; returns their number, -1 if there is no such item, -2 if it does not authenticate.
// `format` receives 1 for data, 2 for JSON. Keys are ASCII here: no normalization.
long floor_read(floor_store *store, const char *prefix, const char *key, uint8_t *out, size_t room, int *format);

// Replaces an item durably, with Lockbox's steps, and keeps only its creation date: lock, look at the keybag, read the old item's creation date, seal,
// temporary file, fsync, rename, fsync of the folder. 0, or -1 with errno.
int floor_write(floor_store *store, const char *prefix, const char *key, const uint8_t *value, size_t length, int format);

// The bare recipe without lock and look-ups, for comparison. The temporary file is made in `tmp` too.
int floor_write_bare(floor_store *store, const char *prefix, const char *key, const uint8_t *value, size_t length, int format);

// The same without the syncs, to fill a large store in little time.
int floor_write_unsynced(floor_store *store, const char *prefix, const char *key, const uint8_t *value, size_t length, int format);

// Replaces many items durably, bare as above: so many files at once are written, then synchronized, then renamed; the folder is
// synchronized once at the end.
int floor_write_batch(floor_store *store, const char *prefix, const char *const *keys, size_t count, const uint8_t *value, size_t length, int format, size_t at_once);

// Opens the metadata of every item of a prefix. Returns how many there are, or -2.
long floor_list(floor_store *store, const char *prefix, size_t *name_bytes);

#endif
