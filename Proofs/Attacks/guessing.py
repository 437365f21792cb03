"""Whether a passcode can be guessed from a keybag without the device key: then Argon2id alone would stand in the way."""
import closure
import keybag
from sodium import H, NotAuthentic, digest, open_box

WINDOW = 12


def check(owner):
    copy, failures = owner.copy(), []
    record, secrets = copy.keybag, list(copy.secrets.values())
    bag = keybag.Keybag(record, copy.device)
    if record[:64] != bag.header + H(32, copy.device, "lockbox.dev.v1"):
        failures.append("the header depends on more than generation, store and device key")
    failures += [f"{name} is outside the box" for name in visible(record, bag)]
    # Everything that the passcode gives, even with the salt, which a guesser does not have.
    known = closure.known_keys([copy.device], [record], secrets, copy.kernel) - {copy.device}
    for secret in secrets:
        known |= {digest(secret.bytes), *(slot.secret(secret.pair) for slot in bag.slots if slot.kind == keybag.KINDS[secret.kind])}
    if any(opens(record, key) for key in known):
        failures.append("the keybag opens without the device key")
    # The checks find what they look for.
    if set(visible(record[:64] + bag.plaintext, bag)) != set(parts(bag)):
        failures.append("a keybag without encryption is not noticed")
    if not opens(record, copy.device):
        failures.append("the keybag does not open with the device key")
    return failures, len(known)


def parts(bag):
    found = {"the list of keys": bag.plaintext[40:40 + 8 * len(bag.ids)]}
    for number, slot in enumerate(bag.slots):
        found |= {f"slot {number}'s ID": slot.id, f"slot {number}'s salt": slot.salt}
        if len(slot.parameters) >= WINDOW:
            found[f"slot {number}'s parameters"] = slot.parameters
        for grant in slot.grants:
            found |= {f"slot {number}'s public key {grant.level}": grant.public, f"slot {number}'s grant {grant.level}": grant.box}
    return found | {f"vault {level}": box for level, (_, box) in bag.vaults.items()}


def visible(record, bag):
    """The parts of which any twelve bytes that follow each other are in the record."""
    return [name for name, part in parts(bag).items()
            if any(part[start:start + WINDOW] in record for start in range(len(part) - WINDOW + 1))]


def opens(record, key):
    try:
        open_box(record[64:], key, "lockbox.bag.v1", record[16:32], record[:32])
        return True
    except NotAuthentic:
        return record[32:64] == H(32, key, "lockbox.dev.v1")
