// Keyed hashes and sealed boxes, as OnDiskFormat.md describes them.
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { KEY = 32, NONCE = 24, COMMIT = 32, TAG = 16, BOX = NONCE + COMMIT + TAG };

void hash(uint8_t *out, size_t n, const uint8_t *in, size_t length, const uint8_t *key, size_t key_length, const char *use);

// Seals what stands in `record` between the box's prefix and its tag, from `start` to `end`. Authenticates all before it.
void seal(uint8_t *record, size_t start, size_t end, const uint8_t *context, size_t length, const uint8_t key[KEY], const char *use);

// Opens a box in place. The plaintext, inside the box, or NULL.
uint8_t *open_box(uint8_t *box, size_t size, const uint8_t *ad, size_t ad_length, const uint8_t *context, size_t length, const uint8_t key[KEY], const char *use);
