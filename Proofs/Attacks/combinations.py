"""Every combination of what was copied before a change and what is there after it, and what each opens."""
import dataclasses

import closure
import items
import keybag
from owner import ALL, Failed, Owner
from sodium import NotAuthentic


def open_keys(device, record, secret, records):
    """All keys that a combination opens, or none."""
    try:
        bag = keybag.Keybag(record, device)
    except NotAuthentic:
        return {}
    unlock_keys = {}
    for serial, kernel_record in records:
        try:
            level, key = keybag.open_kernel_record(kernel_record, serial, device, bag.store)
            bag.open_vault(level, key)
            unlock_keys[level] = key
        except NotAuthentic:
            pass
    return bag.keys(unlock_keys | (bag.unlock_keys(secret.pair) if secret else {}))


DEVICES = {"none": "none", "old": "the one before", "new": "the current one", "not replaced": "not replaced"}


@dataclasses.dataclass(frozen=True)
class Combination:
    device: str  # old, new, or none
    keybag: str
    secret: str
    kernel: str


class Change:
    """An owner's copies from before and after a change of the store."""

    def __init__(self, name, before, after, resealed):
        self.name, self.copies, self.resealed = name, {"old": before, "new": after}, resealed
        # An item left for later is there as it was, and is judged as a copy.
        since = {path: record for path, record in after.items.items() if before.items.get(path) != record}
        self.files = (before.items, since)
        if resealed and len(since) != len(after.items):
            raise AssertionError(f"{name}: not everything is resealed")
        self.has_new_device = before.device != after.device
        self.seen = {}  # by group: what it opened of both sets of files
        self.count = self.opened = 0
        self.failures, self.openings = [], 0

    def combinations(self):
        for device in ("old", "new", "none"):
            for bag in ("old", "new"):
                yield Combination(device, bag, "none", "none")
                for when, copy in self.copies.items():
                    for secret in copy.secrets:
                        if when == "old" or not self.is_old(copy.secrets[secret]):
                            yield Combination(device, bag, f"{when} {secret}", "none")
                    if copy.kernel:
                        yield Combination(device, bag, "none", when)

    def is_old(self, secret):
        return secret in self.copies["old"].secrets.values()

    def secret(self, combination):
        if combination.secret == "none":
            return None
        when, name = combination.secret.split(" ", 1)
        return self.copies[when].secrets[name]

    def device(self, combination):
        return bytes(32) if combination.device == "none" else self.copies[combination.device].device

    # Parts that have to open. Says nothing of how the format does it.

    def levels(self, combination):
        """The levels that a combination opens, of what its keybag has keys of. None: not even the keybag."""
        copy = self.copies[combination.keybag]
        if self.device(combination) != copy.device:
            return None
        if not copy.secrets or combination.kernel == combination.keybag:
            return ALL
        secret = self.secret(combination)
        return secret.levels if secret in copy.secrets.values() else frozenset({0})

    def has_keys(self, combination, path, record):
        """Whether the keybag has the keys that a file is sealed with."""
        is_copy = self.copies["old"].items.get(path) == record
        if combination.keybag == "old":
            return is_copy
        return not is_copy or not self.resealed

    def has_value_key(self, combination, path, record):
        number = items.header(record)[0]
        if number == 7 and not self.copies[combination.keybag].has_passcode:
            return False
        return self.has_keys(combination, path, record)

    # Parts that open

    def check(self):
        for combination in self.combinations():
            records = self.copies[combination.kernel].kernel if combination.kernel != "none" else []
            keys = open_keys(self.device(combination), self.copies[combination.keybag].keybag, self.secret(combination), records)
            self.count += 1
            opened = [self.check_files(combination, keys, files) for files in self.files]
            self.opened += any(opened)
            self.seen.setdefault(self.group(combination), [set(), set()])
            for outcomes, outcome in zip(self.seen[self.group(combination)], opened):
                outcomes.add(outcome)
        self.check_attackers()

    def check_files(self, combination, keys, files):
        levels, opened = self.levels(combination), set()
        for path, record in files.items():
            metadata, value = items.open_item(record, path.rsplit("/")[-1], keys)
            level = keybag.LEVELS[items.header(record)[0]]
            is_known = levels is not None
            self.openings += 1
            must = (is_known and self.has_keys(combination, path, record),
                    is_known and self.has_value_key(combination, path, record) and level in levels)
            if must != (metadata is not None, value is not None):
                self.failures.append(f"{self.name}: {combination}: {metadata or path} opens {metadata is not None, value is not None}, "
                                     f"must {must}")
            if value is not None:
                opened.add(level)
                if value.decode() != metadata:
                    self.failures.append(f"{self.name}: {combination}: {metadata} has the wrong value")
        return frozenset(opened)

    def check_attackers(self):
        """Two who have as much as possible, and try every key on every box: one has all but the present device key, the other all
        but the secrets that unlock the store now."""
        before, after = self.copies["old"], self.copies["new"]
        revoked = [secret for secret in before.secrets.values() if secret not in after.secrets.values()]
        new, names = self.files[1].values(), [path.rsplit("/")[-1] for path in self.files[1]]
        bags = [before.keybag, after.keybag]
        if self.has_new_device:
            secrets = [*before.secrets.values(), *after.secrets.values()]
            known = closure.known_keys([before.device], bags, secrets, before.kernel + after.kernel)
            for name, record in zip(names, new):
                if closure.opens(record, name, known):
                    self.failures.append(f"{self.name}: everything but the new device key opens {name}")
        if after.secrets:
            known = closure.known_keys([before.device, after.device], bags, revoked, before.kernel)
            for name, record in zip(names, new):
                if keybag.LEVELS[items.header(record)[0]] and "value" in closure.opens(record, name, known):
                    self.failures.append(f"{self.name}: everything but a present secret opens {name}")
        self.check_attackers_can_succeed(bags, new, names)

    def check_attackers_can_succeed(self, bags, new, names):
        """With everything, all opens: otherwise the two above could not fail."""
        after = self.copies["new"]
        known = closure.known_keys([after.device], bags, after.secrets.values(), [])
        for name, record in zip(names, new):
            if closure.opens(record, name, known) != {"metadata", "value"}:
                self.failures.append(f"{self.name}: everything does not open {name}")

    # For the table

    def group(self, combination):
        old, new = (self.copies[when].secrets.values() for when in ("old", "new"))
        secret = self.secret(combination)
        if combination.kernel != "none":
            kind = f"the kernel's record {'from before' if combination.kernel == 'old' else 'of now'}"
        elif not secret:
            kind = "none"
        elif secret in old and secret in new:
            kind = "one that stays"
        else:
            kind = "a removed or changed one" if secret in old else "a new one"
        device = combination.device
        if device != "none" and not self.has_new_device:
            device = "not replaced"
        slots = "" if self.copies[combination.keybag].secrets else ", which has no slots"
        bag = ("from before" if combination.keybag == "old" else "current") + slots
        return DEVICES[device], bag, kind


def prepared(process, folder, name, device_elsewhere=False, passcode=True, code=False, key=False, for_user=True):
    owner = Owner(process, f"{folder}/{name}", device_elsewhere)
    owner.write(owner.session(), "first")
    if passcode:
        owner.set_passcode()
    if code or key:
        owner.add_code()
    if key:
        owner.add_key()
    return owner


CHANGES = {  # the state before, the change, whether it can leave the items for later
    "set passcode": ({"passcode": False}, Owner.set_passcode, True),
    "change passcode": ({"code": True, "key": True}, Owner.change_passcode, True),
    "change passcode, not unlocked for the user": ({"for_user": False}, Owner.change_passcode, True),
    "remove passcode": ({}, Owner.remove_passcode, True),
    "remove passcode, a code stays": ({"code": True}, Owner.remove_passcode, True),
    "add recovery code": ({}, Owner.add_code, True),
    "add first slot, a code": ({"passcode": False}, Owner.add_code, True),
    "add key": ({"code": True}, Owner.add_key, True),
    "remove key": ({"key": True}, lambda owner, **options: owner.remove_slot("key", **options), True),
    "remove recovery code": ({"code": True}, lambda owner, **options: owner.remove_slot("code", **options), True),
    "rotateKeys": ({"key": True}, Owner.rotate, False),
    "rotateKeys, no slots": ({"passcode": False}, Owner.rotate, False),
    "rotateKeys(newDeviceKey:)": ({"key": True, "device_elsewhere": True}, Owner.rotate_device, False),
    "rotateKeys(newDeviceKey:), out of the store": ({"code": True}, Owner.rotate_device, False),
    "set passcode, device key elsewhere": ({"passcode": False, "device_elsewhere": True}, Owner.set_passcode, True),
    "change passcode, device key elsewhere": ({"key": True, "device_elsewhere": True}, Owner.change_passcode, True),
    "remove key, device key elsewhere":
        ({"key": True, "device_elsewhere": True}, lambda owner, **options: owner.remove_slot("key", **options), True),
    "rotateKeys, device key elsewhere": ({"code": True, "device_elsewhere": True}, Owner.rotate, False),
}
QUICK = ["change passcode", "rotateKeys(newDeviceKey:)", "remove key, device key elsewhere"]


def make_change(process, folder, name, resealing):
    preparation, change, _ = CHANGES[name]
    owner = prepared(process, folder, f"{name}, {'resealed' if resealing else 'for later'}", **preparation)
    try:
        running = owner.session()  # a program that goes on with what it has unlocked before
        owner.write(running, "before")
        if preparation.get("for_user", True):
            owner.unlock_for_user()
        before = owner.copy()
        change(owner, **({} if resealing else {"resealing": False}))
        owner.write(owner.session(), "after")
        write_from_before(owner, running)
        made = Change(name, before, owner.copy(), resealing)
        if made.has_new_device:
            made.failures += [f"{name}: the old device key is in {file}" for file in files_with(owner.store, before.device)]
        return made
    finally:
        owner.close()


def files_with(folder, secret):
    return [path for path in folder.rglob("*") if path.is_file() and secret in path.read_bytes()]


def write_from_before(owner, running):
    """May be refused, if the program lacks the new keys or their source, but must not be sealed with old ones."""
    try:
        owner.write(running, "running")
    except Failed as error:
        if str(error) not in ("interactionNotAllowed", "deviceKeyMismatch", "missing"):
            raise
