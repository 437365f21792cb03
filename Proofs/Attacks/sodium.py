"""The primitives that OnDiskFormat.md names: BLAKE2b from Python's own library, the others from libsodium."""
import ctypes
import functools
import hashlib
import hmac
import secrets

SODIUM = ctypes.CDLL("libsodium.so")  # of libsodium-dev: its own number differs between systems
if SODIUM.sodium_init() < 0:
    raise SystemExit("Attacks: libsodium cannot be initialized")
NONCE, COMMITMENT, TAG = 24, 32, 16
OVERHEAD = NONCE + COMMITMENT + TAG
ARGON2ID = 2


class NotAuthentic(Exception):
    """A box that does not open."""


def H(length, key, personal, data=b""):
    return hashlib.blake2b(data, digest_size=length, key=key, person=personal.encode()).digest()


def digest(data, length=32):
    return hashlib.blake2b(data, digest_size=length).digest()


def open_box(box, key, personal, context, data):
    if len(box) < OVERHEAD:
        raise NotAuthentic
    nonce, commitment, sealed = box[:NONCE], box[NONCE:NONCE + COMMITMENT], box[NONCE + COMMITMENT:]
    derived = H(64, key, personal, context + nonce)
    if not hmac.compare_digest(derived[32:], commitment):
        raise NotAuthentic
    plaintext = ctypes.create_string_buffer(max(1, len(sealed) - TAG))
    status = SODIUM.crypto_aead_xchacha20poly1305_ietf_decrypt(
        plaintext, None, None, sealed, ctypes.c_ulonglong(len(sealed)), data, ctypes.c_ulonglong(len(data)), nonce, derived[:32])
    if status:
        raise NotAuthentic
    return plaintext.raw[:len(sealed) - TAG]


def seal_box(plaintext, key, personal, context, data):
    nonce = secrets.token_bytes(NONCE)
    derived = H(64, key, personal, context + nonce)
    sealed = ctypes.create_string_buffer(len(plaintext) + TAG)
    SODIUM.crypto_aead_xchacha20poly1305_ietf_encrypt(
        sealed, None, plaintext, ctypes.c_ulonglong(len(plaintext)), data, ctypes.c_ulonglong(len(data)), None, nonce, derived[:32])
    return nonce + derived[32:] + sealed.raw


def key_pair(seed):
    public, secret = ctypes.create_string_buffer(32), ctypes.create_string_buffer(32)
    SODIUM.crypto_box_seed_keypair(public, secret, seed)
    return public.raw, secret.raw


def open_sealed(sealed, pair):
    plaintext = ctypes.create_string_buffer(len(sealed) - 48)
    if SODIUM.crypto_box_seal_open(plaintext, sealed, ctypes.c_ulonglong(len(sealed)), *pair):
        raise NotAuthentic
    return plaintext.raw


def signing_key(seed):
    """The public key."""
    public, secret = ctypes.create_string_buffer(32), ctypes.create_string_buffer(64)
    SODIUM.crypto_sign_seed_keypair(public, secret, seed)
    return public.raw


def sign(message, seed):
    public, secret, signature = (ctypes.create_string_buffer(length) for length in (32, 64, 64))
    SODIUM.crypto_sign_seed_keypair(public, secret, seed)
    SODIUM.crypto_sign_detached(signature, None, message, ctypes.c_ulonglong(len(message)), secret)
    return signature.raw


def is_signed(signature, message, public):
    return not SODIUM.crypto_sign_verify_detached(signature, message, ctypes.c_ulonglong(len(message)), public)


def seal_to(plaintext, public):
    sealed = ctypes.create_string_buffer(len(plaintext) + 48)
    SODIUM.crypto_box_seal(sealed, plaintext, ctypes.c_ulonglong(len(plaintext)), public)
    return sealed.raw


@functools.lru_cache(maxsize=None)
def argon2id(length, passcode, salt, operations, memory):
    output = ctypes.create_string_buffer(length)
    status = SODIUM.crypto_pwhash(
        output, ctypes.c_ulonglong(length), passcode, ctypes.c_ulonglong(len(passcode)), salt,
        ctypes.c_ulonglong(operations), ctypes.c_size_t(memory), ARGON2ID)
    if status:
        raise MemoryError("Argon2id")
    return output.raw
