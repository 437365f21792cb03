"""Items and their names, read and written as OnDiskFormat.md says."""
import base64
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
    if record[:6] != b"LBXI\1\1" or record[6] not in range(1, 8) or record[7] or len(record) < 32:
        raise ValueError("item")
    epoch, metadata = struct.unpack("<II", record[8:16])
    return record[6], epoch, metadata, record[16:32]


def open_item(record, name, keys):
    """Key and value, each None if its box does not open with these keys."""
    number, epoch, metadata, store = header(record)
    context = store + record[6:7] + record[8:12] + item_id(name)
    return (
        open_metadata(record[32:32 + metadata], keys.get((METADATA, epoch)), context, record[:32]),
        open_value(record[32 + metadata:], keys.get((number, epoch)), context, record[:32 + metadata]))


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


def write_item(store, number, epoch, keys, prefix, key, value):
    """A path and an item of a few bytes."""
    place = path(store, keys[NAMES, 1], prefix, key)
    content = struct.pack("<dddIBB4H", 8e8, 8e8, float("inf"), len(value), 1, 0, len(prefix), len(key), 0, 0)
    metadata = (content + prefix.encode() + key.encode()).ljust(256, b"\0")
    record = b"LBXI\1\1" + struct.pack("<BBII", number, 0, epoch, 72 + len(metadata)) + store
    context = store + record[6:7] + record[8:12] + item_id(place.rsplit("/")[-1])
    record += seal_box(metadata, keys[METADATA, epoch], "lockbox.meta.v1", context, record)
    plaintext = (struct.pack("<B3xId", 1, len(value), float("inf")) + value).ljust(256, b"\0")
    return place, record + seal_box(plaintext, keys[number, epoch], "lockbox.value.v1", context, record)
