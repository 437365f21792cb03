"""The forgeries, and what programs notice of each, by the codes of their errors."""
import dataclasses
import secrets
import typing

import items
from forger import Forger
from owner import ALL, Failed, Owner

STRICT = {"protection": "passcode", "minimumClass": "aku"}
# Strict, running, and of a user who remembers the store.
PROGRAMS = [(strict, running, False) for strict in (True, False) for running in (False, True)] + [(False, False, True)]


@dataclasses.dataclass
class Forgery:
    what: str
    forge: typing.Callable
    expected: tuple
    prepare: typing.Callable = None  # returns the copy that is put back
    elsewhere: bool = False
    secret: str = "passcode"
    is_quick: bool = False


def before_passcode(owner):
    copied = owner.copy()
    owner.set_passcode()
    return copied


def before_change(owner):
    owner.set_passcode()
    owner.add_code()
    copied = owner.copy()
    owner.change_passcode()
    return copied


def before_change_for_later(owner):
    owner.set_passcode()
    copied = owner.copy()
    owner.change_passcode(resealing=False)
    return copied


def before_removal(owner):
    owner.set_passcode()
    owner.add_code()
    owner.add_key(levels=ALL)
    copied = owner.copy()
    owner.remove_slot("key")
    return copied


def with_service(owner):
    owner.set_passcode()
    owner.add_code()
    owner.add_key()


def plain(method):
    return lambda forger, copied: method(forger)


def set_passcode(owner):
    owner.set_passcode()


class Trial:
    """One forgery and one program."""

    def __init__(self, process, folder, forgery, program):
        self.owner = Owner(process, folder, forgery.elsewhere)
        self.owner.write(self.owner.session(), "first")
        copied = (forgery.prepare or set_passcode)(self.owner)
        self.secret = self.owner.secrets[forgery.secret].json
        session = self.owner.session()
        self.owner.call("write", session=session, key="secret", value="the owner's", accessibility="ak")
        is_strict, is_running, remembers = program
        self.fields = STRICT | {"identity": self.owner.call("identity")["value"]} if is_strict else {}
        self.fields["memory"] = str(self.owner.memory) if remembers else None
        if is_running:
            self.fields["session"] = self.owner.running
            self.owner.call("unlock", unlock=self.secret, **self.fields)
        self.forger = Forger(self.owner)
        forgery.forge(self.forger, copied)

    def run(self):
        """Unlock, read, write."""
        try:
            steps = []
            if "session" not in self.fields:
                steps.append(self.attempt(self.unlock))
                if steps == ["done"]:
                    self.fields["unlock"] = self.secret
            return "; ".join([*steps, self.attempt(self.read), self.attempt(self.write)])
        finally:
            self.owner.close()

    @staticmethod
    def attempt(body):
        try:
            return body()
        except Failed as error:
            return str(error)

    def unlock(self):
        self.owner.call("unlock", unlock=self.secret, **self.fields)
        return "done"

    def read(self):
        value = self.owner.call("read", key="secret", **self.fields).get("value")
        return value or "nothing"

    def write(self):
        self.owner.call("write", key="new", value="a new secret", accessibility="aku", **self.fields)
        return "known" if any(self.knows(path, record) for path, record in self.owner.files().items()) else "safe"

    def knows(self, path, record):
        return items.open_item(record, path.rsplit("/")[-1], self.forger.known)[1] == b"a new secret"


def attempt(process, folder, forgery):
    cells = []
    for number, program in enumerate(PROGRAMS):
        cells.append(Trial(process, f"{folder}/forgery {id(forgery)}-{number}", forgery, program).run())
    return tuple(cells)


FORGERIES = []
# Each cell: what unlock, read and write give; a program that has unlocked the store before only reads and writes. In the order of
# PROGRAMS.
LOCKED = "authenticationFailed; interactionNotAllowed; interactionNotAllowed"
FORGED = "authenticationFailed; authenticationFailed; authenticationFailed"
RUNNING = "the owner's; authenticationFailed"
NOT_MET = "requirementNotMet; requirementNotMet; requirementNotMet"
ROLLED_BACK = "rolledBack; rolledBack; rolledBack"
REPLACED = "storeReplaced; storeReplaced; storeReplaced"
REFUSED = "authenticationFailed; authenticationFailed"
NOTICED = (NOT_MET, RUNNING, LOCKED, RUNNING, FORGED)
WITHOUT_SLOTS = (NOT_MET, REFUSED, "passcodeNotSet; forged; known", REFUSED, FORGED)


def add(what, forge, expected, **options):
    FORGERIES.append(Forgery(what, forge, expected, **options))


add("an item of the class `always` in the place of a `whenUnlocked` one", plain(Forger.item_of_always),
    ("done; requirementNotMet; safe", "requirementNotMet; safe", "done; forged; safe", "forged; safe", "done; forged; safe"), is_quick=True)
add("a store of the same ID, without any key, with names of the forger's", plain(Forger.store_without_any_key),
    (NOT_MET, REFUSED, "passcodeNotSet; nothing; known", REFUSED, FORGED), is_quick=True)
add("the same, of the first generation", lambda forger, copied: forger.store_without_any_key(generation=1),
    (NOT_MET, "rolledBack; rolledBack", "passcodeNotSet; nothing; known", "rolledBack; rolledBack", ROLLED_BACK), is_quick=True)
add("the same, of another ID", lambda forger, copied: forger.store_without_any_key(store=secrets.token_bytes(16)),
    (NOT_MET, "storeReplaced; storeReplaced", "passcodeNotSet; nothing; known", "storeReplaced; storeReplaced", REPLACED), is_quick=True)
add("a keybag without slots", plain(Forger.no_slots), WITHOUT_SLOTS, is_quick=True)
add("a keybag with a slot of the forger's, then one without slots", plain(Forger.replace_then_remove_slots), WITHOUT_SLOTS, is_quick=True)
add("a keybag without slots, after the owner has locked the store", plain(Forger.lock_then_remove_slots), WITHOUT_SLOTS)
add("a keybag without slots, beside a service", plain(Forger.no_slots),
    (NOT_MET, REFUSED, "slotNotFound; forged; known", REFUSED, FORGED), prepare=with_service, secret="key")
add("another store, with a passcode of the forger's", plain(Forger.another_store),
    (NOT_MET, "storeReplaced; storeReplaced", "wrongPasscode; nothing; interactionNotAllowed", "storeReplaced; storeReplaced", REPLACED))
add("a slot more", plain(Forger.add_slot), NOTICED)
add("an unlock key of the forger's, sealed to the owner's public keys", plain(Forger.own_unlock_key),
    (NOT_MET, REFUSED, LOCKED, REFUSED, FORGED), is_quick=True)
add("a slot of the forger's in the place of the owner's", plain(Forger.replace_slots),
    (NOT_MET, RUNNING, "wrongPasscode; interactionNotAllowed; interactionNotAllowed", RUNNING, FORGED))
add("the two grants of a slot change places", plain(Forger.grant_of_other_level), NOTICED)
add("another epoch", plain(Forger.change_epoch),
    (NOT_MET, RUNNING, "authenticationFailed; interactionNotAllowed; corrupt", RUNNING, FORGED))
add("another generation", plain(Forger.change_generation), NOTICED)
add("a higher generation for a moment, then the owner's keybag", plain(Forger.high_generation_for_a_moment),
    ("done; the owner's; safe", "the owner's; safe") * 2 + ("done; the owner's; safe",))
add("the same by a service, whose keybag another service takes", Forger.high_generation_by_a_service,
    ("done; the owner's; safe", "the owner's; safe") * 2 + ("done; the owner's; safe",), prepare=with_service, is_quick=True)
add("the same, while another service runs", Forger.high_generation_by_a_service,
    ("done; interactionNotAllowed; interactionNotAllowed", "interactionNotAllowed; interactionNotAllowed",
     "done; interactionNotAllowed; interactionNotAllowed", "rolledBack; rolledBack", "done; interactionNotAllowed; interactionNotAllowed"),
    prepare=with_service, secret="key")
add("a keybag by a service", Forger.keybag_of_a_service, NOTICED, prepare=with_service)
add("another key of the class `always`", plain(Forger.change_always_key), NOTICED)
add("keybag and device key from before the passcode was set", Forger.put_back,
    (NOT_MET, "the owner's; rolledBack", "passcodeNotSet; rolledBack; known", "the owner's; rolledBack", ROLLED_BACK), prepare=before_passcode)
OLD_PASSCODE = ("wrongPasscode; rolledBack; interactionNotAllowed", "the owner's; rolledBack") * 2 + (ROLLED_BACK,)
add("keybag and device key from before the passcode was changed", Forger.put_back, OLD_PASSCODE, prepare=before_change)
add("the same, under another spelling of the store's path", Forger.put_back_under_another_path, OLD_PASSCODE, prepare=before_change,
    is_quick=True)
add("the same, as a copy in another folder", Forger.put_back_in_another_folder, OLD_PASSCODE, prepare=before_change)
add("keybag from before a key was removed, by somebody who has that key", Forger.put_back_with_present_device_key,
    ("done; rolledBack; known", "the owner's; rolledBack") * 2 + (ROLLED_BACK,), prepare=before_removal)
add("retired keys under a higher generation, by somebody who knew the passcode before it was changed", Forger.retired_keys,
    OLD_PASSCODE, prepare=before_change_for_later, is_quick=True)
add("keybag and items are gone", plain(Forger.remove_all),
    (NOT_MET, "missing; missing", "passcodeNotSet; nothing; safe", "missing; missing", ROLLED_BACK))
add("the keybag is gone", plain(Forger.remove_keybag),
    ("missing; missing; missing", "the owner's; missing") * 2 + ("missing; missing; missing",))
add("an unlock key of the forger's for the recovery code, by somebody who knew the passcode before it was changed",
    Forger.as_former_owner, ("done; forged; known", REFUSED) * 2 + (FORGED,), prepare=before_change, elsewhere=True, secret="code")
add("the same under a device key of the forger's, who needs write access alone", Forger.as_former_owner_without_the_device_key,
    ("done; forged; known", REFUSED) * 2 + (FORGED,), prepare=before_change, secret="code", is_quick=True)
add("an unlock for the user in the kernel, by a program of the same user", plain(Forger.kernel_record),
    (NOT_MET, REFUSED, "authenticationFailed; forged; known", REFUSED, FORGED))
