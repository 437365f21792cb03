"""Everything that follows from a set of device keys, keybags, secrets and records: each key is tried on each box."""
import itertools

import items
import keybag
from sodium import H, NotAuthentic, key_pair


def known_keys(devices, records, secrets, kernel):
    bags = [bag for record in records for bag in opened(record, devices)]
    known, pairs = set(devices), set()
    for bag in bags:
        known |= {*bag.open.values(), bag.unlock_key}
        for serial, record in kernel:
            known |= from_kernel(record, serial, devices, bag.store)
        for slot, secret in itertools.product(bag.slots, secrets):
            if slot.kind == keybag.KINDS[secret.kind]:
                for level in (1, 2):
                    key = slot.level_key(secret.pair, bag.store, level)
                    known.add(H(32, key, "lockbox.auth.v1"))
                    pairs.add(key_pair(H(32, key, "lockbox.pair.v1")))
    while True:
        found = set().union(*(from_boxes(bag, known, pairs) for bag in bags)) - known
        if not found:
            return known
        known |= found


def opened(record, devices):
    for device in devices:
        try:
            yield keybag.Keybag(record, device)
        except NotAuthentic:
            pass


def from_kernel(record, serial, devices, store):
    found = set()
    for device in devices:
        try:
            found.add(keybag.open_kernel_record(record, serial, device, store)[1])
        except NotAuthentic:
            pass
    return found


def from_boxes(bag, known, pairs):
    found = set()
    for level, key in itertools.product(bag.vaults, known):
        try:
            found |= set(bag.open_vault(level, key)[0])
        except NotAuthentic:
            pass
    for slot in bag.slots:
        for grant, key, pair in itertools.product(slot.grants, known, pairs):
            try:
                found.add(bag.open_grant(slot, grant, key, pair))
            except NotAuthentic:
                pass
    return found


def opens(record, name, known):
    """The boxes of an item that any of the keys opens, whatever the key is for."""
    number, epoch, _, _ = items.header(record)
    found = set()
    for key in known:
        metadata, value = items.open_item(record, name, {(number, epoch): key, (keybag.METADATA, epoch): key})
        found |= {part for part, content in (("metadata", metadata), ("value", value)) if content is not None}
    return found
