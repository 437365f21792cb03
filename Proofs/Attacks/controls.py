"""Wrong claims about stores, which the checks have to contradict."""
import dataclasses

import combinations
import keybag
import malformed
from owner import Owner, Secret


def check(process, folder):
    failures = []
    for name, control in CONTROLS.items():
        if not control(process, f"{folder}/control, {name}"):
            failures.append(f"the control is not found: {name}")
    return failures, len(CONTROLS)


def failures_of(before, after, resealed=True):
    change = combinations.Change("control", before, after, resealed)
    change.check()
    return change.failures


def copies(process, folder, change):
    """Before and after something that is no change of the passcode."""
    owner = combinations.prepared(process, *folder.rsplit("/", 1), code=True)
    session = owner.session()
    owner.write(session, "before")
    before = owner.copy()
    change(owner)
    owner.write(owner.session(), "before")
    owner.write(owner.session(), "first")
    after = owner.copy()
    owner.close()
    return before, after


def unchanged_passcode(process, folder):
    """It is said to be changed, but it still opens what is written later."""
    before, after = copies(process, folder, lambda owner: None)
    after.secrets["passcode"] = Secret("passcode", b"another")
    return any("must (True, False)" in failure for failure in failures_of(before, after))


def leaked_device_key(process, folder):
    """The present device key and passcode are said to be old ones."""
    before, after = copies(process, folder, Owner.rotate)
    leaked = dataclasses.replace(before, device=after.device, keybag=after.keybag)
    return bool(failures_of(leaked, after))


def device_key_left_behind(process, folder):
    """It is looked for while it is there."""
    owner = combinations.prepared(process, *folder.rsplit("/", 1))
    return bool(combinations.files_with(owner.store, owner.device()))


def items_left_for_later(process, folder):
    """All items are said to be resealed."""
    owner = combinations.prepared(process, *folder.rsplit("/", 1), code=True)
    before = owner.copy()
    owner.change_passcode(resealing=False)
    owner.write(owner.session(), "after")
    try:
        combinations.Change("control", before, owner.copy(), resealed=True)
    except AssertionError:
        return True
    return False


def right_keybag(process, folder):
    """A keybag is said to be malformed, and is not."""
    trial = malformed.Malformed(process, folder, 1, seed=1)
    bag = trial.forger.bag
    trial.forger.place("keybag", keybag.write_outer(bag.header, bag.plaintext, trial.forger.device))
    trial.expect_refusal("as it was")
    return bool(trial.failures)


def known_kernel_record(process, folder):
    """The record of now is said to be one from before."""
    owner = combinations.prepared(process, *folder.rsplit("/", 1), code=True)
    before = owner.copy()
    owner.rotate()
    if not owner.unlock_for_user():
        return True  # the kernel takes no keys here
    after = owner.copy()
    owner.close()
    leaked = dataclasses.replace(before, kernel=after.kernel)
    return bool(failures_of(leaked, dataclasses.replace(after, kernel=[])))


CONTROLS = {
    "a passcode that was not changed": unchanged_passcode,
    "a device key that leaked": leaked_device_key,
    "a device key that is left behind": device_key_left_behind,
    "items left for later": items_left_for_later,
    "a keybag that is right": right_keybag,
    "a record of the kernel that leaked": known_kernel_record,
}
