#include "box.h"

#include <sodium.h>
#include <string.h>

void hash(uint8_t *out, size_t n, const uint8_t *in, size_t length, const uint8_t *key, size_t key_length, const char *use) {
    uint8_t personal[16] = {0};
    memcpy(personal, use, strlen(use));
    crypto_generichash_blake2b_salt_personal(out, n, in, length, key, key_length, NULL, personal);
}

static void derive(uint8_t out[64], const uint8_t *context, size_t length, const uint8_t *nonce, const uint8_t key[KEY], const char *use) {
    uint8_t input[64 + NONCE];
    memcpy(input, context, length);
    memcpy(input + length, nonce, NONCE);
    hash(out, 64, input, length + NONCE, key, KEY, use);
}

void seal(uint8_t *record, size_t start, size_t end, const uint8_t *context, size_t length, const uint8_t key[KEY], const char *use) {
    uint8_t *box = record + start, derived[64];
    randombytes_buf(box, NONCE);
    derive(derived, context, length, box, key, use);
    memcpy(box + NONCE, derived + KEY, COMMIT);
    uint8_t *text = box + NONCE + COMMIT;
    crypto_aead_xchacha20poly1305_ietf_encrypt(text, NULL, text, end - start - BOX, record, start, NULL, box, derived);
    sodium_memzero(derived, sizeof derived);
}

uint8_t *open_box(uint8_t *box, size_t size, const uint8_t *ad, size_t ad_length, const uint8_t *context, size_t length, const uint8_t key[KEY], const char *use) {
    uint8_t derived[64], *text = box + NONCE + COMMIT;
    if (size < BOX) return NULL;
    derive(derived, context, length, box, key, use);
    int bad = sodium_memcmp(derived + KEY, box + NONCE, COMMIT) != 0
        || crypto_aead_xchacha20poly1305_ietf_decrypt(text, NULL, NULL, text, size - NONCE - COMMIT, ad, ad_length, box, derived) != 0;
    sodium_memzero(derived, sizeof derived);
    return bad ? NULL : text;
}
