"""Device key, keybag, slots and the kernel's records, read and written as OnDiskFormat.md says. Shares nothing with the library."""
import dataclasses
import hmac
import secrets
import struct

from sodium import (H, NotAuthentic, argon2id, digest, is_signed, key_pair, open_box, open_sealed, seal_box, seal_to, sign,
                    signing_key)

METADATA, NAMES = 8, 9
LEVELS = {1: 1, 4: 1, 7: 1, 2: 2, 5: 2, 3: 0, 6: 0, METADATA: 0, NAMES: 0}  # of each role
SEEDS = 2
VAULT = {1: "lockbox.whole.v1", 2: "lockbox.first.v1"}
CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def device_keys(record):
    if record[:6] != b"LBXD\1\2" or record[6] not in (1, 2) or record[7] or len(record) != 8 + 32 * record[6]:
        raise ValueError("device key")
    return [record[start:start + 32] for start in range(8, len(record), 32)]


@dataclasses.dataclass
class Grant:
    level: int
    public: bytes
    box: bytes


@dataclasses.dataclass
class Slot:
    id: bytes
    kind: int
    opens: int
    created: bytes
    salt: bytes
    grants: list
    label: bytes
    parameters: bytes
    since: int = 1

    def encoded(self):
        header = self.id + bytes([self.kind, self.opens, 0, 0]) + struct.pack("<HH", len(self.label), len(self.parameters))
        grants = b"".join(grant.public + grant.box for grant in self.grants)
        return header + self.created + self.salt + struct.pack("<I", self.since) + grants + self.label + self.parameters

    def level_key(self, secret, store, level):
        root = H(32, self.secret(secret), "lockbox.slot.v1", store + self.id)
        return H(32, root, "lockbox.level.v1", bytes([level]))

    def secret(self, secret):
        """From what a person or a program gives: a pair of kind and bytes."""
        kind, given = secret
        if kind == "passcode":
            algorithm, operations, memory = struct.unpack("<B3xIQ", self.parameters)
            if algorithm != 1 or not 2 <= operations <= 10 or not 1 << 26 <= memory <= 1 << 30 or memory % 1024:
                raise ValueError("cost of the passcode")
            return argon2id(32, given, self.salt[:16], operations, memory)
        key, personal = (code_symbols(given), "lockbox.recov.v1") if kind == "code" else (digest(given), "lockbox.key.v1")
        return H(32, key, personal, self.salt)


KINDS = {"passcode": 1, "code": 2, "key": 3}


def code_symbols(text):
    folded = text.decode().upper().replace("-", "").replace(" ", "").replace("O", "0").replace("I", "1").replace("L", "1")
    numbers = [CROCKFORD.index(symbol) for symbol in folded]
    for root in (1, 2):  # a multiple of (x + 1)(x + 2) is zero at both
        value = 0
        for number in numbers:
            value = product(value, root) ^ number
        if value or len(numbers) != 28:
            raise ValueError("recovery code")
    return folded[:26].encode()


def product(a, b):
    """In GF(32) with x⁵ + x² + 1."""
    result = 0
    for bit in range(5):
        if b >> bit & 1:
            result ^= a << bit
    for bit in range(8, 4, -1):
        if result >> bit & 1:
            result ^= 0b100101 << (bit - 5)
    return result


class Reader:
    def __init__(self, data):
        self.data, self.offset = data, 0

    def take(self, length):
        if self.offset + length > len(self.data):
            raise ValueError("too short")
        self.offset += length
        return self.data[self.offset - length:self.offset]


def bag_message(header, plaintext):
    return b"lockbox.owner.b1" + digest(header + plaintext, 64)


def certificate_message(store, issuer, subject):
    return b"lockbox.owner.c1" + store + issuer + subject


@dataclasses.dataclass
class Owner:
    """The epoch of the last revocation, the owner's public key, and its certificates: pairs of issuer and signature."""
    revoked: int
    root: tuple
    key: bytes
    former: list

    @staticmethod
    def read(reader):
        revoked, count = struct.unpack("<II", reader.take(8))
        if count > 32:
            raise ValueError("former owners")
        pair = lambda: (reader.take(32), reader.take(64))
        return Owner(revoked, pair(), reader.take(32), [pair() for _ in range(count)])

    @staticmethod
    def make(store, root, seed):
        """With two seeds."""
        key, issuer = signing_key(seed), signing_key(root)
        return Owner(0, (issuer, sign(certificate_message(store, issuer, key), root)), key, [])

    def followed(self, store, seeds):
        """By an owner's key that somebody makes who has both seeds. Its certificates are true. And the seeds then."""
        root, last = seeds
        new = secrets.token_bytes(32)
        next = Owner.make(store, root, new)
        next.former = [*self.former, (self.key, sign(certificate_message(store, self.key, next.key), last))][-32:]
        next.revoked = self.revoked
        return next, [root, new]

    def verify(self, store):
        subjects = [issuer for issuer, _ in self.former[1:]] + [self.key]
        for (issuer, signature), subject in [(self.root, self.key), *zip(self.former, subjects)]:
            if not is_signed(signature, certificate_message(store, issuer, subject), issuer):
                raise NotAuthentic

    def encoded(self):
        former = b"".join(issuer + signature for issuer, signature in self.former)
        return struct.pack("<II", self.revoked, len(self.former)) + self.root[0] + self.root[1] + self.key + former


class Keybag:
    """A keybag, opened with the device key."""

    def __init__(self, record, device):
        if record[:8] != b"LBXK\1\4\0\0":
            raise ValueError("keybag")
        self.header, self.store = record[:32], record[16:32]
        self.generation = struct.unpack("<Q", record[8:16])[0]
        if not hmac.compare_digest(record[32:64], H(32, device, "lockbox.dev.v1")):
            raise NotAuthentic
        self.check = record[32:64]
        self.plaintext = open_box(record[64:], device, "lockbox.bag.v1", self.store, self.header)
        self.parse(Reader(self.plaintext))

    def parse(self, reader):
        self.epoch, slots, keys = struct.unpack("<IHH", reader.take(8))
        self.unlock_key = reader.take(32)
        self.closed, self.manifest = struct.unpack("<I32s", reader.take(36))
        if self.closed >= self.epoch:
            raise ValueError("closed epochs")
        self.ids = []
        for _ in range(keys):
            role, level, zero, epoch = struct.unpack("<BBHI", reader.take(8))
            if LEVELS.get(role) != level or zero:
                raise ValueError("list of keys")
            self.ids.append((role, epoch))
        self.open = {id: reader.take(32) for id in self.ids if LEVELS[id[0]] == 0}
        self.slots = [self.slot(reader) for _ in range(slots)]
        grants = sum(len(slot.grants) for slot in self.slots)
        self.owner_start = reader.offset
        self.owner = Owner.read(reader)
        self.owner.verify(self.store)
        self.vaults = {}
        for level, extra in ((2, 0), (1, 1 + SEEDS + grants)):
            data = digest(self.header + self.plaintext[:reader.offset])
            self.vaults[level] = (data, reader.take(72 + 32 * (extra + len(self.of_level(level)))))
        end = reader.offset
        if not is_signed(reader.take(64), bag_message(self.header + self.check, self.plaintext[:end]), self.owner.key):
            raise NotAuthentic
        if reader.offset != len(self.plaintext) or (slots and (any(self.unlock_key[4:]) or not any(self.unlock_key))):
            raise ValueError("keybag's plaintext")

    def of_level(self, level):
        return [id for id in self.ids if LEVELS[id[0]] == level]

    @staticmethod
    def slot(reader):
        id, kind, opens, zero, label, parameters = struct.unpack("<16sBBHHH", reader.take(24))
        if kind not in range(1, 6) or opens not in (1, 2) or kind <= 2 and opens == 2 or zero:
            raise ValueError("slot")
        created, salt, since = reader.take(8), reader.take(32), struct.unpack("<I", reader.take(4))[0]
        grants = [Grant(level, reader.take(32), reader.take(152)) for level in ([2, 1] if opens == 1 else [2])]
        return Slot(id, kind, opens, created, salt, grants, reader.take(label), reader.take(parameters), since)

    # Opening with a secret.

    def open_vault(self, level, unlock_key):
        data, box = self.vaults[level]
        plaintext = open_box(box, unlock_key, VAULT[level], self.store, data)
        parts = [plaintext[start:start + 32] for start in range(0, len(plaintext), 32)]
        return parts, dict(zip(self.of_level(level), parts[len(parts) - len(self.of_level(level)):]))

    def seeds(self, unlock_key):
        """Of the root key and the owner's key."""
        return self.open_vault(1, unlock_key)[0][1:1 + SEEDS]

    def open_grant(self, slot, grant, authentication, pair):
        sealed = open_box(grant.box, authentication, "lockbox.grant.v1", self.store + slot.id, bytes([grant.level]))
        return open_sealed(sealed, pair)

    def unlock_keys(self, secret):
        """The unlock keys that a secret opens, by level."""
        for slot in self.slots:
            if slot.kind != KINDS[secret[0]]:
                continue
            found = {}
            for grant in slot.grants:
                key = slot.level_key(secret, self.store, grant.level)
                pair = key_pair(H(32, key, "lockbox.pair.v1"))
                if pair[0] == grant.public:
                    found[grant.level] = self.open_grant(slot, grant, H(32, key, "lockbox.auth.v1"), pair)
            if found:
                return found
        return {}

    def keys(self, unlock_keys):
        """All keys that are open with these unlock keys."""
        keys, unlock_keys = dict(self.open), dict(unlock_keys)
        if not self.slots:
            unlock_keys[1] = self.unlock_key
        if 1 in unlock_keys:
            parts, opened = self.open_vault(1, unlock_keys[1])
            unlock_keys[2] = parts[0]
            keys |= opened
        if 2 in unlock_keys:
            keys |= self.open_vault(2, unlock_keys[2])[1]
        return keys


# Writing by somebody who has the keys.

def header(generation, store):
    return b"LBXK\1\4\0\0" + struct.pack("<Q", generation) + store


def write_outer(head, plaintext, device):
    return head + H(32, device, "lockbox.dev.v1") + seal_box(plaintext, device, "lockbox.bag.v1", head[16:32], head)


def signed(head, plaintext, device, seed):
    return plaintext + sign(bag_message(head + H(32, device, "lockbox.dev.v1"), plaintext), seed)


def write(generation, store, epoch, keys, slots, unlock_keys, authentication, device, owner=None, seeds=None):
    """A whole keybag. `authentication` has the keys of the grants, in order; `seeds` are those of the root key and the owner's key."""
    seeds = seeds or [secrets.token_bytes(32), secrets.token_bytes(32)]
    owner = owner or Owner.make(store, *seeds)
    head, ids = header(generation, store), list(keys)
    plaintext = struct.pack("<IHH", epoch, len(slots), len(ids)) + (struct.pack("<I28x", 1) if slots else unlock_keys[1]) + bytes(36)
    plaintext += b"".join(struct.pack("<BBHI", role, LEVELS[role], 0, of) for role, of in ids)
    plaintext += b"".join(keys[id] for id in ids if LEVELS[id[0]] == 0)
    plaintext += b"".join(slot.encoded() for slot in slots)
    plaintext += owner.encoded()
    for level, before in ((2, b""), (1, unlock_keys[2] + b"".join(seeds) + b"".join(authentication))):
        content = before + b"".join(keys[id] for id in ids if LEVELS[id[0]] == level)
        plaintext += seal_box(content, unlock_keys[level], VAULT[level], store, digest(head + plaintext))
    return write_outer(head, signed(head, plaintext, device, seeds[1]), device)


def grant(slot, level, store, unlock_key, public, authentication):
    box = seal_box(seal_to(unlock_key, public), authentication, "lockbox.grant.v1", store + slot, bytes([level]))
    return Grant(level, public, box)


# In the kernel.

def open_kernel_record(record, serial, device, store):
    """Level and unlock key."""
    if len(record) != 120 or record[:6] != b"LBXU\1\2":
        raise ValueError("kernel's record")
    data = record[:16] + struct.pack("<i", serial)
    return record[6], open_box(record[16:], device, "lockbox.unlock.1", store, data)


def write_kernel_record(level, unlock_key, serial, device, store):
    head = b"LBXU\1\2" + bytes([level, 0]) + bytes(8)
    return head + seal_box(unlock_key, device, "lockbox.unlock.1", store, head + struct.pack("<i", serial))
