"""The gain from planted items, keys and unlocks without a secret that unlocks the store, or with only one from before."""
import dataclasses
import json
import os
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

    def under_old_keys(self, before=lambda self: None, after=lambda self: None, place="secret", number=1, **options):
        before(self)
        old = self.bag()
        keys = old.keys(old.unlock_keys(self.owner.secrets["passcode"].pair))
        try:
            self.owner.change_passcode(**options)
        except Failed:
            pass
        after(self)
        self.plant(number, keys, place=place, epoch=old.epoch)

    def beside_junk(self):
        self.under_old_keys(lambda self: Forger(self.owner).place(self.path[:-1] + ("a" if self.path[-1] != "a" else "q"), b"junk"))

    def beside_unreadable(self):
        path = items.path(self.bag().store, self.bag().open[keybag.NAMES, 1], PREFIX, "other")
        self.under_old_keys(lambda self: (self.owner.store / path).chmod(0o644))

    def before_another_rotation(self):
        self.beside_unreadable()
        self.owner.rotate()

    @property
    def new(self):
        """Where an item would be that the owner has never stored."""
        bag = self.bag()
        return self.owner.store / items.path(bag.store, bag.open[keybag.NAMES, 1], PREFIX, "new")

    def in_the_place_of_a_fifo(self, **options):
        self.under_old_keys(lambda self: os.mkfifo(self.new, 0o600), lambda self: self.new.unlink(), "new", **options)

    def in_the_place_of_a_folder(self):
        self.under_old_keys(lambda self: self.new.mkdir(0o700), lambda self: self.new.rmdir(), "new")

    def in_the_place_of_a_link(self):
        self.under_old_keys(lambda self: self.new.symlink_to("/dev/null"), lambda self: self.new.unlink(), "new")

    def in_a_folder_that_others_could_write_to(self):
        self.under_old_keys(lambda self: self.new.parent.chmod(0o777), lambda self: self.new.parent.chmod(0o700), "new")

    def always_in_the_place_of_a_fifo(self):
        self.in_the_place_of_a_fifo(number=3)

    def left_for_later(self):
        self.under_old_keys(place="new", resealing=False)

    def in_the_place_of_an_item_left_for_later(self):
        self.under_old_keys(resealing=False)

    def and_rotated(self, plant):
        plant(self)
        self.owner.rotate()

    def device_key_in_a_file(self):
        self.owner.rotate_device()

    def nothing(self):
        pass

    def unlock_in_the_kernel(self):
        Forger(self.owner).kernel_record()

    def forged_backup(self):
        """Whoever knows the public key makes it in a store of their own, with a passcode."""
        key = self.call("backupKey")
        self.private, forger = key["value"], Owner(self.owner.process, self.owner.folder / "forger")
        forger.set_passcode()
        session = forger.session()
        for name in ("secret", "new"):
            forger.call("write", session=session, key=name, value="forged", accessibility="dk")
        forger.call("export", session=session, key=self.backup, value=key["names"][0])
        forger.close()

    # The owner's program

    @property
    def backup(self):
        return str(self.owner.folder / "backup")

    def import_and_read(self):
        self.call("import", key=self.backup, value=self.private)
        return self.read()

    def import_and_replace(self):
        self.call("import", key=self.backup, value=self.private, existing="replace")
        return f"{self.read()}, {self.call('class', key='secret')['value']}"

    def import_and_write(self):
        self.call("import", key=self.backup, value=self.private)
        self.call("write", key="new", value="the next")
        return "written"

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

    def read_new(self):
        return self.call("read", key="new").get("value") or "nothing"

    def list(self):
        return ", ".join(self.call("list")["names"])

    def write_new(self):
        self.call("write", key="new", value="the next")
        return self.call("class", key="new")["value"]

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
    Planting("the same, while the store is locked", Trial.always, Trial.write_locked, "classNotProven"),
    Planting("the same, planted before the store had a slot", Trial.always_before_the_first_slot, Trial.write, "invalidAttribute"),
    Planting("an item of the class `afterFirstUnlock` by a service, before a write that names no class", Trial.by_service, Trial.write,
             "invalidAttribute"),
    Planting("an item under keys from before a change, beside a file of junk", Trial.beside_junk, Trial.read, "corrupt"),
    Planting("the same, beside an item that cannot be read for now", Trial.beside_unreadable, Trial.read, "corrupt"),
    Planting("the same, before another rotation", Trial.before_another_rotation, Trial.read, "corrupt"),
    Planting("the same, where a FIFO was during the change", Trial.in_the_place_of_a_fifo, Trial.read_new, "corrupt"),
    Planting("the same, before another rotation", lambda self: self.and_rotated(Trial.in_the_place_of_a_fifo), Trial.read_new,
             "corrupt"),
    Planting("the same, where a folder was", Trial.in_the_place_of_a_folder, Trial.read_new, "corrupt"),
    Planting("the same, where a link was", Trial.in_the_place_of_a_link, Trial.read_new, "corrupt"),
    Planting("the same, in a folder that others could write to", Trial.in_a_folder_that_others_could_write_to, Trial.read_new,
             "corrupt"),
    Planting("the same, while items are left for later", Trial.left_for_later, Trial.read_new, "corrupt"),
    Planting("the same, before another rotation", lambda self: self.and_rotated(Trial.left_for_later), Trial.read_new, "corrupt"),
    Planting("the same, in the place of an item that is left for later", Trial.in_the_place_of_an_item_left_for_later, Trial.read,
             "corrupt"),
    Planting("the same, in a list that stops at what it cannot read", Trial.left_for_later, Trial.list, "corrupt"),
    Planting("the same, of the class `always`, before a write that names no class", Trial.always_in_the_place_of_a_fifo,
             Trial.write_new, "ak"),
    Planting("an unlock for the user in the kernel, before a write with the passcode", Trial.unlock_in_the_kernel,
             Trial.write_with_passcode, "authenticationFailed"),
    Planting("the store's device key, as the key of another slot", Trial.nothing, Trial.add_device_key, "slotRefused"),
    Planting("the same, if it is in a file elsewhere", Trial.device_key_in_a_file, Trial.add_device_key, "slotRefused"),
    Planting("the key of a slot, as the next device key", Trial.nothing, Trial.make_slots_key_the_device_key, "invalidDeviceKey"),
    Planting("a backup to the owner's public key, which the owner imports", Trial.forged_backup, Trial.import_and_read, "the owner's"),
    Planting("the same, imported with `replace`: the value is the forger's, the class stays", Trial.forged_backup,
             Trial.import_and_replace, "forged, ak"),
    Planting("an item of the class `always` in such a backup, before a write that names no class", Trial.forged_backup,
             Trial.import_and_write, "invalidAttribute"),
]


def check(process, folder):
    """The result of each, and the wrong ones."""
    results = []
    for number, planting in enumerate(PLANTINGS):
        results.append((planting.what, Trial(process, f"{folder}/planting {number}", planting).run(planting)))
    wrong = [f"{what}: {found}, expected {planting.expected}"
             for planting, (what, found) in zip(PLANTINGS, results) if found != planting.expected]
    return results, wrong
