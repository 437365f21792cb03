"""Keybags, device keys and kernel records with wrong bytes, sealed again with the right device key: each must be refused with an
error of the library's own, and none may unlock the store."""
import collections
import random

import kernel
import keybag
from forger import Forger
from owner import ALL, Failed, Owner

ALLOWED = {"authenticationFailed", "corrupt", "unsupportedVersion", "wrongPasscode", "slotNotFound", "rolledBack", "deviceKeyMismatch",
           "missing"}


def prepared(process, folder):
    owner = Owner(process, folder)
    owner.write(owner.session(), "first")
    owner.set_passcode()
    owner.add_code()
    owner.add_key(levels=ALL)
    return owner


class Malformed:
    def __init__(self, process, folder, step, seed):
        self.owner, self.step, self.random = prepared(process, folder), step, random.Random(seed)
        self.forger = Forger(self.owner)
        self.records = {name: (self.owner.store / name).read_bytes() for name in ("keybag", "device-key")}
        self.codes, self.failures = collections.Counter(), []

    def run(self):
        self.unlock()  # it opens as it is
        for description, name, record in [*self.plaintexts(), *self.headers(), *self.files()]:
            self.forger.place(name, record)
            self.expect_refusal(description)
            self.forger.place(name, self.records[name])
            self.owner.memory.unlink(missing_ok=True)  # one that was changed may be higher
        self.kernel_records()
        self.unlock()
        self.owner.close()

    def unlock(self):
        self.owner.call("unlock", unlock=self.owner.secrets["key"].json)

    def expect_refusal(self, description):
        try:
            self.unlock()
            code = "unlocked"
        except Failed as error:
            code = str(error)
        self.codes[code] += 1
        if code not in ALLOWED:
            self.failures.append(f"{description}: {code}")

    def plaintexts(self):
        """Behind the device key, where only somebody who has it can write."""
        plaintext, head = self.forger.bag.plaintext, self.forger.bag.header
        def sealed(description, changed):
            return description, "keybag", keybag.write_outer(head, changed, self.forger.device)
        for offset in range(0, len(plaintext), self.step):
            value = self.random.choice([0, 1, 127, 128, 255, plaintext[offset] ^ 1 << self.random.randrange(8)])
            value = value if value != plaintext[offset] else value ^ 1
            yield sealed(f"byte {offset} is {value}", plaintext[:offset] + bytes([value]) + plaintext[offset + 1:])
        for offset in range(0, len(plaintext), 4 * self.step):
            yield sealed(f"cut at {offset}", plaintext[:offset])
            yield sealed(f"bytes more at {offset}", plaintext[:offset] + self.random.randbytes(32) + plaintext[offset:])
            yield sealed(f"noise from {offset}", plaintext[:offset] + self.random.randbytes(len(plaintext) - offset))
        yield sealed("64 KiB more", plaintext + bytes(65536))
        yield sealed("many slots and keys", b"\1\0\0\0\xff\xff\xff\xff" + plaintext[8:])

    def headers(self):
        plaintext, head = self.forger.bag.plaintext, self.forger.bag.header
        for offset in range(len(head)):
            changed = head[:offset] + bytes([head[offset] ^ 1 << self.random.randrange(8)]) + head[offset + 1:]
            yield f"byte {offset} of the header", "keybag", keybag.write_outer(changed, plaintext, self.forger.device)

    def files(self):
        """Without the device key."""
        for name, record in self.records.items():
            for offset in range(0, len(record), self.step if name == "keybag" else 1):
                changed = record[:offset] + bytes([record[offset] ^ 1 << self.random.randrange(8)]) + record[offset + 1:]
                yield f"{name}, byte {offset}", name, changed
                yield f"{name}, cut at {offset}", name, record[:offset]

    def kernel_records(self):
        """They count as absent."""
        self.owner.unlock_for_user()
        self.owner.call("read", key="first ak")
        for name in self.owner.kernel_names():
            found = kernel.read(name)
            if not found:
                return
            for offset in range(0, len(found[1]), self.step):
                for changed in (found[1][:offset] + bytes([found[1][offset] ^ 255]) + found[1][offset + 1:], found[1][:offset]):
                    self.try_kernel_record(name, changed)
            kernel.remove(name)

    def try_kernel_record(self, name, record):
        if not record:
            return
        kernel.write(name, lambda serial: record)
        key = "first ak" if name.endswith("unlocked") else "first ck"
        try:
            self.owner.call("read", key=key)
            code = "unlocked"
        except Failed as error:
            code = str(error)
        self.codes[f"{code} (kernel)"] += 1
        if code != "interactionNotAllowed":
            self.failures.append(f"{name}: {code}")
