"""Somebody who has the device key, can write all files of a store, and knows none of the secrets that unlock it."""
import copy
import secrets
import shutil
import struct

import items
import kernel
import keybag
from owner import PREFIX, Failed
from sodium import H

random = lambda: secrets.token_bytes(32)


class Forger:
    def __init__(self, owner):
        owner.kernel_names()
        self.owner, self.device = owner, owner.device()
        self.bag = keybag.Keybag((owner.store / "keybag").read_bytes(), self.device)
        self.names = next(key for (role, _), key in self.bag.open.items() if role == keybag.NAMES)
        self.unlock_keys = {1: random(), 2: random()}
        self.known = dict(self.bag.open)

    def place(self, path, contents):
        for path in [path, f"{path}-copy"] if path in ("keybag", "device-key") else [path]:
            path = self.owner.store / path
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(contents)
            path.chmod(0o600)

    def own_keys(self, has_passcode):
        """Of the forger's choice, but the names: so the store's items stay where they are."""
        epoch = self.bag.epoch
        roles = [role for role in keybag.LEVELS if role != keybag.NAMES and (has_passcode or role != 7)]
        names = next(id for id in self.bag.ids if id[0] == keybag.NAMES)
        self.known = {(role, epoch): self.bag.open.get((role, epoch), random()) for role in roles} | {names: self.names}
        return self.known

    def write(self, slots, store=None, authentication=None, generation=None, signer=(None, None)):
        keys = self.own_keys(bool(slots))
        count = sum(len(slot.grants) for slot in slots)
        self.place("keybag", keybag.write(
            generation or self.bag.generation + 1, store or self.bag.store, self.bag.epoch, keys, slots, self.unlock_keys,
            authentication or [random() for _ in range(count)], self.device, *signer))

    def forge_item(self, number):
        keys = {(keybag.NAMES, 1): self.names} | self.known
        path, record = items.write_item(self.bag.store, number, self.bag.epoch, keys, PREFIX, "secret", b"forged")
        self.place(path, record)

    # The forgeries

    def item_of_always(self):
        self.forge_item(3)

    def own_device_key(self):
        """Needs write access alone, where the store keeps its device key."""
        self.device = random()
        self.place("device-key", b"LBXD\1\2\1\0" + self.device)

    def store_without_any_key(self, generation=None, store=None):
        """A whole store without slots, of the ID in the clear header, or of another one. The items' names are the forger's too."""
        self.own_device_key()
        self.names, self.bag.open = random(), {}
        shutil.rmtree(self.owner.store / "items")
        (self.owner.store / "items").mkdir(0o700)
        self.write([], store, generation=generation)

    def no_slots(self):
        self.write([])
        self.forge_item(1)

    def another_store(self):
        """With a passcode of the forger's: a whole store of their own."""
        store = secrets.token_bytes(16)
        shutil.rmtree(self.owner.store / "items")
        (self.owner.store / "items").mkdir(0o700)
        slot, authentication = self.own_slot(1, store)
        self.write([slot], store, authentication)

    def own_slot(self, kind, store):
        parameters = self.bag.slots[0].parameters if kind == 1 else b""
        slot = keybag.Slot(secrets.token_bytes(16), kind, 1, self.bag.slots[0].created, random(), [], b"", parameters)
        authentication = []
        for level in (2, 1):
            key = slot.level_key(("passcode" if kind == 1 else "key", b"of the forger, who knows what it is"), store, level)
            authentication.append(H(32, key, "lockbox.auth.v1"))
            public, _ = keybag.key_pair(H(32, key, "lockbox.pair.v1"))
            slot.grants.append(keybag.grant(slot.id, level, store, self.unlock_keys[level], public, authentication[-1]))
        return slot, authentication

    def add_slot(self):
        """After the others, with the vaults as they are, and as many bytes more as the keys of another slot need."""
        plaintext, encoded = self.bag.plaintext, [slot.encoded() for slot in self.bag.slots]
        end = plaintext.index(encoded[-1]) + len(encoded[-1])
        slot, _ = self.own_slot(3, self.bag.store)
        count = struct.pack("<H", len(encoded) + 1)
        self.reseal(plaintext[:4] + count + plaintext[6:end] + slot.encoded() + plaintext[end:] + random() + random())

    def reseal(self, plaintext, generation=None):
        head = keybag.header(generation or self.bag.generation, self.bag.store)
        self.place("keybag", keybag.write_outer(head, plaintext, self.device))

    def own_unlock_key(self):
        """Sealed to the owner's public keys, without the keys that authenticate it."""
        self.grant_to_slots(lambda slot, level: random())

    def grant_to_slots(self, authentication, signer=(None, None)):
        slots = copy.deepcopy(self.bag.slots)
        for slot in slots:
            slot.grants = [keybag.grant(slot.id, grant.level, self.bag.store, self.unlock_keys[grant.level], grant.public,
                                        authentication(slot, grant.level)) for grant in slot.grants]
        self.write(slots, signer=signer)
        self.forge_item(1)

    def grant_of_other_level(self):
        """The two grants of each slot change places."""
        slots = copy.deepcopy(self.bag.slots)
        for slot in slots:
            first, second = slot.grants
            first.box, second.box = second.box, first.box
        plaintext = self.bag.plaintext
        for before, after in zip(self.bag.slots, slots):
            plaintext = plaintext.replace(before.encoded(), after.encoded())
        self.reseal(plaintext)

    def replace_slots(self):
        slot, authentication = self.own_slot(1, self.bag.store)
        self.write([slot], authentication=authentication)

    def replace_then_remove_slots(self):
        """A program reads the one keybag, and then finds the other."""
        self.replace_slots()
        self.ask("slots")
        self.no_slots()

    def lock_then_remove_slots(self):
        self.ask("lock")
        self.no_slots()

    def ask(self, call):
        """The program that has unlocked the store, if there is one."""
        try:
            self.owner.call(call, session=self.owner.running)
        except Failed:
            pass

    def change_epoch(self):
        self.reseal(struct.pack("<I", self.bag.epoch + 1) + self.bag.plaintext[4:])

    def change_generation(self):
        self.reseal(self.bag.plaintext, self.bag.generation + 7)

    def change_always_key(self):
        key = self.bag.open[3, self.bag.epoch]
        self.reseal(self.bag.plaintext.replace(key, random()))

    def remove_all(self):
        self.remove_keybag()
        shutil.rmtree(self.owner.store / "items")

    def remove_keybag(self):
        for name in ("keybag", "keybag-copy"):
            (self.owner.store / name).unlink()

    def kernel_record(self):
        """An unlock for the user with the forger's unlock key, which only a program of the same user can plant."""
        self.grant_to_slots(lambda slot, level: random())
        for level, name in zip((1, 2), self.owner.kernel_names()):
            kernel.write(name, lambda serial: keybag.write_kernel_record(
                level, self.unlock_keys[level], serial, self.device, self.bag.store))

    def put_back(self, copied):
        self.place("keybag", copied.keybag)
        self.place("device-key", b"LBXD\1\2\1\0" + copied.device)
        self.known = keybag.Keybag(copied.keybag, copied.device).keys({})

    def put_back_under_another_path(self, copied):
        self.put_back(copied)
        self.owner.path = f"{self.owner.folder}/store/../store/."

    def put_back_in_another_folder(self, copied):
        """Programs are then told to use it."""
        self.put_back(copied)
        self.owner.store = self.owner.folder / "restored"
        shutil.copytree(self.owner.folder / "store", self.owner.store)
        self.owner.path = str(self.owner.store)

    def put_back_with_present_device_key(self, copied):
        """By somebody who has the secret of a slot that was removed since."""
        old = keybag.Keybag(copied.keybag, copied.device)
        unlock_keys = old.unlock_keys(copied.secrets["key"].pair)
        plaintext = keybag.signed(old.header, old.plaintext[:-64], self.device, old.seeds(unlock_keys[1])[1])
        self.place("keybag", keybag.write_outer(old.header, plaintext, self.device))
        self.known = old.keys(unlock_keys)

    def high_generation_for_a_moment(self):
        """A program looks at it, and then the owner's keybag is there again."""
        owners = (self.owner.store / "keybag").read_bytes()
        self.reseal(self.bag.plaintext, self.bag.generation + 1000)
        self.owner.call("list", memory=None)
        self.place("keybag", owners)

    def high_generation_by_a_service(self, copied):
        """Another service takes the keybag, and then the owner's is there again."""
        owners = (self.owner.store / "keybag").read_bytes()
        self.keybag_of_a_service(copied)
        self.owner.call("unlock", unlock=self.owner.secrets["key"].json, memory=None)
        self.ask("slots")
        self.place("keybag", owners)

    def keybag_of_a_service(self, copied):
        """A service seals its vault again, under a higher generation, and leaves the other one as it is."""
        unlock_key = self.bag.unlock_keys(self.owner.secrets["key"].pair)[2]
        lengths = {level: len(box) for level, (_, box) in self.bag.vaults.items()}
        start = len(self.bag.plaintext) - lengths[1] - lengths[2] - 64
        head = keybag.header(self.bag.generation + 1000, self.bag.store)
        plaintext = self.bag.plaintext[:start]
        content = b"".join(self.bag.open_vault(2, unlock_key)[0])
        plaintext += keybag.seal_box(content, unlock_key, keybag.VAULT[2], self.bag.store, keybag.digest(head + plaintext))
        self.place("keybag", keybag.write_outer(head, plaintext + self.bag.plaintext[-lengths[1] - 64:], self.device))

    def as_former_owner(self, copied):
        """With a passcode that was changed since: the old vault has the keys that authenticate the grants of every slot, also of
        those that stayed, and the seeds of that time."""
        old = keybag.Keybag(copied.keybag, copied.device)
        unlock_key = old.unlock_keys(copied.secrets["passcode"].pair)[1]
        parts = iter(old.open_vault(1, unlock_key)[0][1 + keybag.SEEDS:])
        known = {(slot.id, grant.level): next(parts) for slot in old.slots for grant in slot.grants}
        signer = old.owner.followed(self.bag.store, old.seeds(unlock_key))
        self.grant_to_slots(lambda slot, level: known.get((slot.id, level)) or random(), signer)

    def as_former_owner_without_the_device_key(self, copied):
        self.own_device_key()
        self.as_former_owner(copied)

    def retired_keys(self, copied):
        """Under a higher generation, with the secret of a slot that was removed or changed: the keys from before it, of which the
        store still has items, become those of new items again."""
        old = keybag.Keybag(copied.keybag, copied.device)
        unlock_keys = old.unlock_keys(copied.secrets["passcode"].pair)
        self.known = old.keys(unlock_keys)
        signer = old.owner.followed(self.bag.store, old.seeds(unlock_keys[1]))
        slot, authentication = self.own_slot(1, self.bag.store)
        self.place("keybag", keybag.write(
            self.bag.generation + 7, self.bag.store, old.epoch, self.known, [slot], self.unlock_keys, authentication, self.device,
            *signer))
