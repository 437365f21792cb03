// The keybag and its slots.
#pragma once

#include "box.h"
#include "floor.h"

enum { ROLES = 10, ROLE_METADATA = 8, ROLE_NAMES = 9, KEYBAG_MAX = 1 << 19, DEVICE_KEY_MAX = 72 };

// The keys that new items are sealed with. Those that the secret does not open are absent.
struct keys {
    uint8_t id[16];
    uint32_t epoch;
    uint8_t key[ROLES][KEY], is_open[ROLES];
};

// Opens a keybag in place with the file of the device key and, if there is one, the secret of a slot. 0, or -1.
int keybag_open(struct keys *keys, uint8_t *bag, size_t n, const uint8_t *device, size_t device_length, const struct floor_secret *secret);
