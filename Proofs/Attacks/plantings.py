"""The gain from planted items, keys and unlocks without a secret that unlocks the store, or with only one from before."""
import dataclasses
import json
import typing

import items
import keybag
from forger import Forger
from owner import PREFIX, Failed, Owner

EVIL = "evil.example"


@dataclasses.dataclass
class Planting:
    what: str
    plant: typing.Callable
    attempt: typing.Callable  # by a program that the owner has unlocked
    expected: str


class Trial:
    def __init__(self, process, folder, planting):
        self.owner = Owner(process, folder)
        self.owner.set_passcode()
        self.owner.add_code()
        self.owner.add_key()
        session = self.owner.session()
        self.owner.call("write", session=session, key="secret", value="the owner's", accessibility="ak", server="example.com")
        self.owner.call("write", session=session, key="other", value="another", accessibility="ak")
        self.path = items.path(self.bag().store, self.bag().open[keybag.NAMES, 1], PREFIX, "secret")
        planting.plant(self)

    def bag(self):
        return keybag.Keybag((self.owner.store / "keybag").read_bytes(), self.owner.device())

    def plant(self, number, keys=None, place="secret", named=None, epoch=None, prefix=PREFIX, value=b"forged"):
        bag = self.bag()
        known = (keys or {}) | {id: key for id, key in bag.open.items() if not keys or id not in keys}
        path, record = items.write_item(bag.store, number, epoch or bag.epoch, known, prefix, place, value, named, {"server": EVIL})
        Forger(self.owner).place(path, record)

    # Plantings

    def another_name(self):
        self.plant(1, place="planted", named="secret")

    def another_server(self):
        self.plant(1)

    def always(self):
        self.plant(3)

    def always_before_the_first_slot(self):
        """With the proof that somebody chose the class who could unlock the store."""
        for name in ("key", "code"):
            self.owner.remove_slot(name)
        self.owner.remove_passcode()
        self.plant(3, self.bag().keys({}))
        self.owner.set_passcode()

    def by_service(self):
        bag = self.bag()
        self.plant(2, bag.keys(bag.unlock_keys(self.owner.secrets["key"].pair)))

    def under_old_keys(self, before=lambda self: None):
        before(self)
        old = self.bag()
        keys = old.keys(old.unlock_keys(self.owner.secrets["passcode"].pair))
        try:
            self.owner.change_passcode()
        except Failed:
            pass
        self.plant(1, keys, epoch=old.epoch)

    def beside_junk(self):
        self.under_old_keys(lambda self: Forger(self.owner).place(self.path[:-1] + ("a" if self.path[-1] != "a" else "q"), b"junk"))

    def beside_unreadable(self):
        path = items.path(self.bag().store, self.bag().open[keybag.NAMES, 1], PREFIX, "other")
        self.under_old_keys(lambda self: (self.owner.store / path).chmod(0o644))

    def before_another_rotation(self):
        self.beside_unreadable()
        self.owner.rotate()

    def device_key_in_a_file(self):
        self.owner.rotate_device()

    def nothing(self):
        pass

    def unlock_in_the_kernel(self):
        Forger(self.owner).kernel_record()

    def other_recipients(self, number=3):
        mine = self.call("backupKey")["names"]
        self.call("backupKey")
        self.plant(number, place="recipients", prefix="\0backup", value=json.dumps(mine).encode())

    def other_recipients_that_need_an_unlock(self):
        self.other_recipients(1)

    def forged_backup(self):
        """Whoever knows the public key makes it in a store of their own."""
        key = self.call("backupKey")
        self.private, forger = key["value"], Owner(self.owner.process, self.owner.folder / "forger")
        forger.call("write", key="secret", value="forged", accessibility="dk")
        forger.call("export", key=self.backup, value=key["names"][0])

    # The owner's program

    @property
    def backup(self):
        return str(self.owner.folder / "backup")

    def recipients(self):
        return ", ".join(self.call("backupRecipients")["names"])

    def import_and_read(self):
        self.call("import", key=self.backup, value=self.private)
        return self.read()

    def import_and_replace(self):
        self.call("import", key=self.backup, value=self.private, existing="replace")
        return f"{self.read()}, {self.call('class', key='secret')['value']}"

    def call(self, call, **fields):
        return self.owner.call(call, session=self.owner.session(), **fields)

    def find(self):
        return self.call("find", server=EVIL).get("value") or "nothing"

    def write(self):
        self.call("write", key="secret", value="the next")
        return "written"

    def write_locked(self):
        self.owner.call("write", key="secret", value="the next")
        return "written"

    def write_with_passcode(self):
        self.owner.call("write", key="new", value="the next", accessibility="ak", unlock=self.owner.secrets["passcode"].json)
        return "written"

    def add_device_key(self):
        file = self.owner.device_file or self.owner.store / "device-key"
        self.call("addKey", secret={"kind": "file", "secret": str(file)})
        return "added"

    def make_slots_key_the_device_key(self):
        file = self.owner.new_device_file("given")
        file.write_bytes(self.owner.secrets["key"].bytes)
        self.call("rotateKeys", newDeviceKey=str(file))
        return "replaced"

    def read(self):
        return self.call("read", key="secret").get("value") or "nothing"

    def run(self, planting):
        try:
            return planting.attempt(self)
        except Failed as error:
            return str(error)
        finally:
            self.owner.close()


PLANTINGS = [
    Planting("metadata of the class `whenUnlocked` that names another item's key", Trial.another_name, Trial.find, "nothing"),
    Planting("attributes of the forger's in the place of the owner's", Trial.another_server, Trial.find, "nothing"),
    Planting("an item of the class `always`, before a write that names no class", Trial.always, Trial.write, "invalidAttribute"),
    Planting("the same, while the store is locked", Trial.always, Trial.write_locked, "interactionNotAllowed"),
    Planting("the same, planted before the store had a slot", Trial.always_before_the_first_slot, Trial.write, "invalidAttribute"),
    Planting("an item of the class `afterFirstUnlock` by a service, before a write that names no class", Trial.by_service, Trial.write,
             "invalidAttribute"),
    Planting("an item under keys from before a change, beside a file of junk", Trial.beside_junk, Trial.read, "corrupt"),
    Planting("the same, beside an item that cannot be read for now", Trial.beside_unreadable, Trial.read, "authenticationFailed"),
    Planting("the same, before another rotation", Trial.before_another_rotation, Trial.read, "authenticationFailed"),
    Planting("an unlock for the user in the kernel, before a write with the passcode", Trial.unlock_in_the_kernel,
             Trial.write_with_passcode, "authenticationFailed"),
    Planting("the store's device key, as the key of another slot", Trial.nothing, Trial.add_device_key, "slotRefused"),
    Planting("the same, if it is in a file elsewhere", Trial.device_key_in_a_file, Trial.add_device_key, "slotRefused"),
    Planting("the key of a slot, as the next device key", Trial.nothing, Trial.make_slots_key_the_device_key, "invalidDeviceKey"),
    Planting("public keys for backups, of the class `always`", Trial.other_recipients, Trial.recipients, "requirementNotMet"),
    Planting("the same, of the class `whenUnlocked`", Trial.other_recipients_that_need_an_unlock, Trial.recipients,
             "authenticationFailed"),
    Planting("a backup to the owner's public key, which the owner imports", Trial.forged_backup, Trial.import_and_read, "the owner's"),
    Planting("the same, imported with `replace`: the value is the forger's, the class stays", Trial.forged_backup,
             Trial.import_and_replace, "forged, ak"),
]


def check(process, folder):
    """The result of each, and the wrong ones."""
    results = []
    for number, planting in enumerate(PLANTINGS):
        results.append((planting.what, Trial(process, f"{folder}/planting {number}", planting).run(planting)))
    wrong = [f"{what}: {found}, expected {planting.expected}"
             for planting, (what, found) in zip(PLANTINGS, results) if found != planting.expected]
    return results, wrong
