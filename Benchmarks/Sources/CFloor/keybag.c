#include "keybag.h"

#include "bytes.h"

#include <ctype.h>
#include <sodium.h>

enum { HEADER = 64, AUTHENTICATED = 32, FIXED = 76, ENTRY = 8, SLOT = 68, GRANT = 32 + BOX + crypto_box_SEALBYTES + KEY };
enum { MAX_KEYS = 256, MAX_SLOTS = 32, MAX_FORMER = 32, SEEDS = 2 };
enum { PUBLIC = crypto_sign_PUBLICKEYBYTES, SIGNATURE = crypto_sign_BYTES, CERTIFICATE = PUBLIC + SIGNATURE };

struct slot {
    const uint8_t *id, *salt, *grants, *parameters;
    uint8_t kind;
    size_t levels, parameters_length;
};

// Of the plaintext of the keybag's box.
struct bag {
    const uint8_t *header, *text, *entries, *owner;
    uint8_t *vault[3];  // of levels 1 and 2
    size_t length, at, slots, count, grants, vault_length[3];
    uint8_t vault_data[3][32];
    struct slot slot[MAX_SLOTS];
};

// MARK: Reading

static uint16_t get16(const uint8_t *p) { return p[0] | p[1] << 8; }

static const uint8_t *take(struct bag *bag, size_t n) {
    if (n > bag->length - bag->at) return NULL;
    bag->at += n;
    return bag->text + bag->at - n;
}

static int level_of(int role) {
    static const uint8_t levels[ROLES] = {0, 1, 2, 0, 1, 2, 0, 1, 0, 0};
    return levels[role];
}

static const uint8_t *entry(const struct bag *bag, size_t i) { return bag->entries + ENTRY * i; }

static size_t keys_of_level(const struct bag *bag, int level) {
    size_t count = 0;
    for (size_t i = 0; i < bag->count; i++) count += entry(bag, i)[1] == level;
    return count;
}

static int read_entries(struct bag *bag) {
    if (!(bag->entries = take(bag, ENTRY * bag->count))) return -1;
    for (size_t i = 0; i < bag->count; i++) {
        const uint8_t *e = entry(bag, i);
        if (e[0] < 1 || e[0] >= ROLES || e[1] != level_of(e[0]) || e[2] || e[3]) return -1;
    }
    return 0;
}

static int read_slot(struct bag *bag, struct slot *slot) {
    const uint8_t *p = take(bag, SLOT);
    if (!p || !get32(p + 64) || p[16] < 1 || p[16] > 5 || p[17] < 1 || p[17] > 2 || p[18] || p[19]) return -1;
    if (p[16] <= 2 && p[17] == 2) return -1;  // a passcode or a recovery code opens everything
    size_t label = get16(p + 20);
    *slot = (struct slot){.id = p, .salt = p + 32, .kind = p[16], .levels = p[17] == 1 ? 2 : 1, .parameters_length = get16(p + 22)};
    if (label > 256 || slot->parameters_length > 2048) return -1;
    bag->grants += slot->levels;
    slot->grants = take(bag, GRANT * slot->levels);
    return slot->grants && take(bag, label) && (slot->parameters = take(bag, slot->parameters_length)) ? 0 : -1;
}

// `issuer` states that `subject` is the owner's key, too.
static int certifies(const uint8_t certificate[CERTIFICATE], const uint8_t subject[PUBLIC], const uint8_t store[16]) {
    uint8_t message[16 + 16 + 2 * PUBLIC];
    memcpy(message, "lockbox.owner.c1", 16);
    memcpy(message + 16, store, 16);
    memcpy(message + 32, certificate, PUBLIC);
    memcpy(message + 32 + PUBLIC, subject, PUBLIC);
    return !crypto_sign_verify_detached(certificate + PUBLIC, message, sizeof message, certificate);
}

// The epoch of the last revocation, the root key's certificate, the owner's key, and those of its predecessors. A reader that opens level
// 1 would only have to check the signature; this one checks all that it can.
static int read_owner(struct bag *bag, const uint8_t store[16]) {
    const uint8_t *fixed = take(bag, 8 + CERTIFICATE + PUBLIC), *former;
    if (!fixed || get32(fixed + 4) > MAX_FORMER || !(former = take(bag, (size_t)CERTIFICATE * get32(fixed + 4)))) return -1;
    const uint8_t *owner = bag->owner = fixed + 8 + CERTIFICATE;
    if (!certifies(fixed + 8, owner, store)) return -1;
    for (size_t i = 0, n = get32(fixed + 4); i < n; i++)
        if (!certifies(former + CERTIFICATE * i, i + 1 < n ? former + CERTIFICATE * (i + 1) : owner, store)) return -1;
    return 0;
}

// The signature of the header, with the device check, and of all plaintext before it.
static int read_signature(struct bag *bag) {
    uint8_t message[16 + crypto_generichash_BYTES_MAX] = "lockbox.owner.b1";
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, crypto_generichash_BYTES_MAX);
    crypto_generichash_update(&state, bag->header, HEADER);
    crypto_generichash_update(&state, bag->text, bag->at);
    crypto_generichash_final(&state, message + 16, crypto_generichash_BYTES_MAX);
    const uint8_t *signature = take(bag, SIGNATURE);
    return !signature || crypto_sign_verify_detached(signature, message, sizeof message, bag->owner) ? -1 : 0;
}

// Each vault authenticates the header and everything before it.
static int read_vault(struct bag *bag, int level, size_t more) {
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, 32);
    crypto_generichash_update(&state, bag->header, AUTHENTICATED);
    crypto_generichash_update(&state, bag->text, bag->at);
    crypto_generichash_final(&state, bag->vault_data[level], 32);
    bag->vault_length[level] = BOX + KEY * (more + keys_of_level(bag, level));
    bag->vault[level] = (uint8_t *)take(bag, bag->vault_length[level]);
    return bag->vault[level] ? 0 : -1;
}

static void keep(struct keys *keys, const uint8_t *entry, const uint8_t *key) {
    if (get32(entry + 4) != keys->epoch && entry[0] != ROLE_NAMES) return;
    memcpy(keys->key[entry[0]], key, KEY);
    keys->is_open[entry[0]] = 1;
}

static int read_bag(struct bag *bag, struct keys *keys, uint8_t unlock_key[KEY]) {
    const uint8_t *fixed = take(bag, FIXED), *key;
    if (!fixed) return -1;
    keys->epoch = get32(fixed);
    bag->slots = get16(fixed + 4);
    bag->count = get16(fixed + 6);
    memcpy(unlock_key, fixed + 8, KEY);
    // Only items of the current epoch are read here, so the manifest of older ones does not matter.
    if (get32(fixed + 40) >= keys->epoch) return -1;
    // With slots, the first epoch that had some stands in the place of the unlock key.
    if (bag->slots && (!get32(unlock_key) || !sodium_is_zero(unlock_key + 4, KEY - 4))) return -1;
    if (bag->slots > MAX_SLOTS || bag->count > MAX_KEYS || read_entries(bag)) return -1;
    for (size_t i = 0; i < bag->count; i++)
        if (!entry(bag, i)[1]) {
            if (!(key = take(bag, KEY))) return -1;
            keep(keys, entry(bag, i), key);
        }
    for (size_t i = 0; i < bag->slots; i++)
        if (read_slot(bag, &bag->slot[i])) return -1;
    return read_owner(bag, keys->id) || read_vault(bag, 2, 0) || read_vault(bag, 1, 1 + SEEDS + bag->grants) || read_signature(bag) || bag->at != bag->length ? -1 : 0;
}

// MARK: Slots

// 26 characters without separators, or -1 if the code is mistyped.
static int recovery_code(const uint8_t *typed, size_t length, uint8_t code[28]) {
    static const char alphabet[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    size_t count = 0;
    uint8_t one = 0, two = 0;  // the polynomial at 1 and at 2
    for (size_t i = 0; i < length; i++) {
        int c = toupper(typed[i]);
        if (c == '-' || c == ' ') continue;
        c = c == 'O' ? '0' : c == 'I' || c == 'L' ? '1' : c;
        const char *found = c ? strchr(alphabet, c) : NULL;
        if (!found || count == 28) return -1;
        code[count++] = c;
        uint8_t symbol = found - alphabet;
        one ^= symbol;
        two = (two << 1 ^ (two & 16 ? 0x25 : 0)) ^ symbol;
    }
    return count == 28 && !one && !two ? 0 : -1;
}

static int slot_secret(const struct slot *slot, const struct floor_secret *secret, uint8_t out[KEY]) {
    const uint8_t *p = slot->parameters;
    uint8_t code[28], digest[KEY];
    switch (slot->kind) {
    case FLOOR_PASSCODE: {
        if (slot->parameters_length != 16 || get32(p) != 1) return -1;
        uint32_t operations = get32(p + 4);
        uint64_t memory = get64(p + 8);
        if (operations < 2 || operations > 10 || memory < 1 << 26 || memory > 1 << 30 || memory % 1024) return -1;
        return crypto_pwhash(out, KEY, (const char *)secret->bytes, secret->length, slot->salt, operations, memory, crypto_pwhash_ALG_ARGON2ID13);
    }
    case FLOOR_RECOVERY_CODE:
        if (recovery_code(secret->bytes, secret->length, code)) return -1;
        hash(out, KEY, slot->salt, 32, code, 26, "lockbox.recov.v1");
        return 0;
    default:
        if (crypto_generichash(digest, KEY, secret->bytes, secret->length, NULL, 0)) return -1;
        hash(out, KEY, slot->salt, 32, digest, KEY, "lockbox.key.v1");
        return 0;
    }
}

// The unlock key of one level. -1: the secret is not the slot's.
static int open_grant(const struct slot *slot, uint8_t level, const uint8_t *grant, const uint8_t root[KEY], const uint8_t store[16], uint8_t unlock_key[KEY]) {
    uint8_t key[KEY], seed[KEY], public[KEY], secret[KEY], authentication[KEY], context[32], box[GRANT - 32], *sealed;
    hash(key, KEY, &level, 1, root, KEY, "lockbox.level.v1");
    hash(seed, KEY, NULL, 0, key, KEY, "lockbox.pair.v1");
    hash(authentication, KEY, NULL, 0, key, KEY, "lockbox.auth.v1");
    crypto_box_seed_keypair(public, secret, seed);
    memcpy(context, store, 16);
    memcpy(context + 16, slot->id, 16);
    memcpy(box, grant + 32, sizeof box);
    int bad = sodium_memcmp(public, grant, 32)
        || !(sealed = open_box(box, sizeof box, &level, 1, context, sizeof context, authentication, "lockbox.grant.v1"))
        || crypto_box_seal_open(unlock_key, sealed, crypto_box_SEALBYTES + KEY, public, secret);
    sodium_memzero(key, sizeof key), sodium_memzero(seed, sizeof seed), sodium_memzero(secret, sizeof secret);
    return bad ? -1 : 0;
}

// The highest level that the secret opens, 1 or 2, or -1.
static int open_slots(const struct bag *bag, const struct floor_secret *secret, const uint8_t store[16], uint8_t unlock_key[KEY]) {
    for (size_t i = 0; i < bag->slots; i++) {
        const struct slot *slot = &bag->slot[i];
        uint8_t given[KEY], root[KEY], context[32];
        if (slot->kind != secret->kind || slot_secret(slot, secret, given)) continue;
        memcpy(context, store, 16);
        memcpy(context + 16, slot->id, 16);
        hash(root, KEY, context, sizeof context, given, KEY, "lockbox.slot.v1");
        if (slot->levels == 2 && !open_grant(slot, 1, slot->grants + GRANT, root, store, unlock_key)) return 1;
        if (!open_grant(slot, 2, slot->grants, root, store, unlock_key)) return 2;
    }
    return -1;
}

// MARK: Vaults

static int open_vault(struct bag *bag, int level, uint8_t unlock_key[KEY], struct keys *keys) {
    uint8_t *text = open_box(bag->vault[level], bag->vault_length[level], bag->vault_data[level], 32, keys->id, 16, unlock_key,
                             level == 1 ? "lockbox.whole.v1" : "lockbox.first.v1");
    if (!text) return -1;
    // The vault of level 1 begins with the unlock key of level 2, two seeds, and the keys that authenticate the grants.
    uint8_t *key = text + (level == 1 ? KEY * (1 + SEEDS + bag->grants) : 0);
    for (size_t i = 0; i < bag->count; i++)
        if (entry(bag, i)[1] == level) {
            keep(keys, entry(bag, i), key);
            key += KEY;
        }
    if (level == 1) memcpy(unlock_key, text, KEY);
    return 0;
}

int keybag_open(struct keys *keys, uint8_t *record, size_t n, const uint8_t *device, size_t device_length, const struct floor_secret *secret) {
    uint8_t check[32], unlock_key[KEY];
    struct bag bag = {.header = record};
    if (device_length < 8 || memcmp(device, "LBXD\1\2", 6) || device[6] < 1 || device[6] > 2 || device[7]
        || device_length != 8 + (size_t)KEY * device[6] || n < HEADER + BOX || memcmp(record, "LBXK\1\4\0\0", 8)) return -1;
    memcpy(keys->id, record + 16, 16);
    for (size_t i = 0; i < device[6] && !bag.text; i++) {
        const uint8_t *key = device + 8 + KEY * i;
        hash(check, 32, NULL, 0, key, KEY, "lockbox.dev.v1");
        if (!sodium_memcmp(check, record + 32, 32))
            bag.text = open_box(record + HEADER, n - HEADER, record, AUTHENTICATED, keys->id, 16, key, "lockbox.bag.v1");
    }
    bag.length = n - HEADER - BOX;
    if (!bag.text || read_bag(&bag, keys, unlock_key)) return -1;
    int level = 1;
    if (bag.slots) {
        if (!secret) return 0;
        if ((level = open_slots(&bag, secret, keys->id, unlock_key)) < 0) return -1;
    }
    int bad = (level == 1 && open_vault(&bag, 1, unlock_key, keys)) || open_vault(&bag, 2, unlock_key, keys);
    sodium_memzero(unlock_key, sizeof unlock_key);
    return bad ? -1 : 0;
}
