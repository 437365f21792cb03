"""Items and their names, read and written as OnDiskFormat.md says."""
import base64
import secrets
import struct

from keybag import METADATA, NAMES
from sodium import H, NotAuthentic, open_box, seal_box


def base32(data):
    return base64.b32encode(data).decode().lower().rstrip("=")


def item_id(name):
    return base64.b32decode(name.upper() + "=" * (-len(name) % 8))


def text(value):
    encoded = value.encode()
    return struct.pack("<I", len(encoded)) + encoded


def path(store, names, prefix, key):
    namespace = base32(H(32, names, "lockbox.scope.v1", text(prefix)))
    return f"items/{base32(store)[:8]}-{namespace}/{base32(H(32, names, 'lockbox.name.v1', text(prefix) + text(key)))}"


def header(record):
    if record[:6] != b"LBXI\1\2" or record[6] not in range(1, 8) or record[7] or len(record) < 32:
        raise ValueError("item")
    epoch, metadata = struct.unpack("<II", record[8:16])
    return record[6], epoch, metadata, record[16:32]


def open_item(record, name, keys):
    """Key and value, each None if its box does not open with these keys."""
    number, epoch, metadata, store = header(record)
    context, start = store + record[6:7] + record[8:12] + item_id(name), 32 + metadata + 64
    return (
        open_metadata(record[32:32 + metadata], keys.get((METADATA, epoch)), context, record[:32]),
        open_value(record[start:], keys.get((number, epoch)), context, record[:start]))


def open_metadata(box, key, context, data):
    try:
        plaintext = key and open_box(box, key, "lockbox.meta.v1", context, data)
    except NotAuthentic:
        return None
    if not plaintext:
        return None
    prefix, length = struct.unpack("<HH", plaintext[30:34])
    return plaintext[38 + prefix:38 + prefix + length].decode()


def open_value(box, key, context, data):
    try:
        plaintext = key and open_box(box, key, "lockbox.value.v1", context, data)
    except NotAuthentic:
        return None
    return plaintext[16:16 + struct.unpack("<I", plaintext[4:8])[0]] if plaintext else None


def macs(record, id, class_key, unlock_key=None):
    """Of the item's class, and of `whenUnlocked` if that is another level and the key is known. A key that is missing gives noise."""
    fields = ((class_key, "lockbox.class.v1"), (unlock_key, "lockbox.chose.v1"))
    return b"".join(H(32, key, personal, id + record) if key else secrets.token_bytes(32) for key, personal in fields)


def searchable(attributes):
    parts = [(name.encode(), value.encode()) for name, value in sorted(attributes.items())]
    return bytes([len(parts)]) * bool(parts) + b"".join(struct.pack("<HH", len(name), len(value)) + name + value for name, value in parts)


def write_item(store, number, epoch, keys, prefix, key, value, named=None, attributes={}):
    """A path and an item of a few bytes. Its metadata may name another key. Without the key of its class, its value is noise."""
    place = path(store, keys[NAMES, 1], prefix, key)
    key = named or key
    content = struct.pack("<dddIBB4H", 8e8, 8e8, float("inf"), len(value), 1, 4 * bool(attributes), len(prefix), len(key), 0, 0)
    metadata = content + prefix.encode() + key.encode() + searchable(attributes)
    metadata = metadata.ljust((len(metadata) + 255) // 256 * 256, b"\0")
    record = b"LBXI\1\2" + struct.pack("<BBII", number, 0, epoch, 72 + len(metadata)) + store
    id, class_key = item_id(place.rsplit("/")[-1]), keys.get((number, epoch))
    context = store + record[6:7] + record[8:12] + id
    record += seal_box(metadata, keys[METADATA, epoch], "lockbox.meta.v1", context, record)
    record += macs(record, id, class_key, keys.get((1, epoch)) if number in (2, 3, 5, 6) else None)
    plaintext = (struct.pack("<B3xId", 1, len(value), float("inf")) + value).ljust(256, b"\0")
    return place, record + seal_box(plaintext, class_key or bytes(32), "lockbox.value.v1", context, record)
