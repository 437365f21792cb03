"""The forgeries, and what programs notice of each, by the codes of their errors."""
import dataclasses
import typing

import items
import kernel
from forger import Forger
from owner import ALL, Failed, Owner

STRICT = {"protection": "passcode", "minimumClass": "aku"}
PROGRAMS = [(strict, running) for strict in (True, False) for running in (False, True)]


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


def after_restart(forge):
    def restarted(forger, copied):
        kernel.remove(forger.owner.generations)
        forge(forger, copied)
    return restarted


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
        is_strict, is_running = program
        self.fields = STRICT | {"identity": self.owner.call("identity")["value"]} if is_strict else {}
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
NOTICED = (LOCKED, "the owner's; authenticationFailed") * 2
ROLLED_BACK = ("rolledBack; rolledBack; rolledBack", "the owner's; rolledBack") * 2
NOT_MET = "requirementNotMet; requirementNotMet; requirementNotMet"


def add(what, forge, expected, **options):
    FORGERIES.append(Forgery(what, forge, expected, **options))


add("an item of the class `always` in the place of a `whenUnlocked` one", plain(Forger.item_of_always),
    ("done; requirementNotMet; safe", "requirementNotMet; safe", "done; forged; safe", "forged; safe"), is_quick=True)
add("a keybag without slots", plain(Forger.no_slots),
    (NOT_MET, "authenticationFailed; authenticationFailed", "passcodeNotSet; forged; known", "authenticationFailed; authenticationFailed"), is_quick=True)
add("a keybag with a slot of the forger's, then one without slots", plain(Forger.replace_then_remove_slots),
    (NOT_MET, "authenticationFailed; authenticationFailed", "passcodeNotSet; forged; known", "authenticationFailed; authenticationFailed"), is_quick=True)
add("a keybag without slots, after the owner has locked the store", plain(Forger.lock_then_remove_slots),
    (NOT_MET, "authenticationFailed; authenticationFailed", "passcodeNotSet; forged; known", "authenticationFailed; authenticationFailed"))
add("a keybag without slots, beside a service", plain(Forger.no_slots),
    (NOT_MET, "authenticationFailed; authenticationFailed", "slotNotFound; forged; known", "authenticationFailed; authenticationFailed"), prepare=with_service, secret="key")
add("another store, with a passcode of the forger's", plain(Forger.another_store),
    (NOT_MET, "storeReplaced; storeReplaced", "wrongPasscode; nothing; interactionNotAllowed", "storeReplaced; storeReplaced"))
add("a slot more", plain(Forger.add_slot), NOTICED)
add("an unlock key of the forger's, sealed to the owner's public keys", plain(Forger.own_unlock_key),
    (LOCKED, "authenticationFailed; authenticationFailed") * 2, is_quick=True)
add("a slot of the forger's in the place of the owner's", plain(Forger.replace_slots),
    ("wrongPasscode; interactionNotAllowed; interactionNotAllowed", "the owner's; safe") * 2)
add("the two grants of a slot change places", plain(Forger.grant_of_other_level), NOTICED)
add("another epoch", plain(Forger.change_epoch),
    ("authenticationFailed; interactionNotAllowed; corrupt", "the owner's; authenticationFailed") * 2)
add("another generation", plain(Forger.change_generation), NOTICED)
add("a higher generation for a moment, then the owner's keybag", plain(Forger.high_generation_for_a_moment),
    ("done; the owner's; safe", "the owner's; safe") * 2)
add("the same by a service, whose keybag another service takes", Forger.high_generation_by_a_service,
    ("done; the owner's; safe", "the owner's; safe") * 2, prepare=with_service, is_quick=True)
add("the same, while another service runs", Forger.high_generation_by_a_service,
    ("done; interactionNotAllowed; interactionNotAllowed", "rolledBack; rolledBack") * 2, prepare=with_service, secret="key")
add("a keybag by a service", Forger.keybag_of_a_service, NOTICED, prepare=with_service)
add("another key of the class `always`", plain(Forger.change_always_key), NOTICED)
add("keybag and device key from before the passcode was set", Forger.put_back, ROLLED_BACK, prepare=before_passcode)
add("the same, after a restart of the machine", after_restart(Forger.put_back),
    (NOT_MET, "the owner's; rolledBack", "passcodeNotSet; rolledBack; known", "the owner's; rolledBack"), prepare=before_passcode)
add("keybag and device key from before the passcode was changed", Forger.put_back, ROLLED_BACK, prepare=before_change)
add("the same, after a restart of the machine", after_restart(Forger.put_back),
    ("wrongPasscode; rolledBack; interactionNotAllowed", "the owner's; rolledBack") * 2, prepare=before_change)
add("the same, under another spelling of the store's path", Forger.put_back_under_another_path, ROLLED_BACK, prepare=before_change,
    is_quick=True)
add("the same, as a copy in another folder", Forger.put_back_in_another_folder, ROLLED_BACK, prepare=before_change)
add("keybag from before a key was removed, by somebody who has that key", Forger.put_back_with_present_device_key, ROLLED_BACK,
    prepare=before_removal)
add("the same, after a restart of the machine", after_restart(Forger.put_back_with_present_device_key),
    ("done; rolledBack; known", "the owner's; rolledBack") * 2, prepare=before_removal)
add("retired keys under a higher generation, by somebody who knew the passcode before it was changed", Forger.retired_keys,
    ROLLED_BACK, prepare=before_change_for_later, is_quick=True)
add("the same, after a restart of the machine", after_restart(Forger.retired_keys),
    ("wrongPasscode; rolledBack; interactionNotAllowed", "the owner's; rolledBack") * 2, prepare=before_change_for_later)
add("keybag and items are gone", plain(Forger.remove_all),
    (NOT_MET, "missing; missing", "passcodeNotSet; nothing; safe", "missing; missing"))
add("the keybag is gone", plain(Forger.remove_keybag), ("missing; missing; missing", "the owner's; missing") * 2)
add("an unlock key of the forger's for the recovery code, by somebody who knew the passcode before it was changed",
    Forger.as_former_owner, ("done; forged; known", "forged; known") * 2, prepare=before_change, elsewhere=True, secret="code")
add("an unlock for the user in the kernel, by a program of the same user", plain(Forger.kernel_record),
    ("authenticationFailed; forged; known", "authenticationFailed; authenticationFailed") * 2)
