"""Reads every item of the test vectors with the program in C: vectors.py READER FOLDER."""
import base64
import json
import pathlib
import subprocess
import sys
import unicodedata

VECTORS = pathlib.Path(__file__).resolve().parents[2] / "Tests/LockboxStoreTests/Vectors/v1.json"
ABSENT, DOES_NOT_OPEN = 2, 3
NOW = 820_000_000  # the vectors' items expire long before or long after
SOME = ("ck", "cku", "dk", "dku")  # the classes that a key opens


def place(folder, vectors):
    for path, record in [("device-key", vectors["deviceKey"]), ("keybag", vectors["keybag"])] + [
            (item["path"], item["record"]) for item in vectors["items"]]:
        path = folder / path
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(0o600)
        path.write_bytes(base64.b64decode(record))
    (folder / "tmp").mkdir()


def show(reader, folder, item, kind=None, secret=b""):
    """Status, format and value."""
    names = [unicodedata.normalize("NFC", item[name]) for name in ("prefix", "key")]
    result = subprocess.run([reader, "show", folder, *names, *([kind] if kind else [])], input=secret, capture_output=True)
    number, _, value = result.stdout.partition(b"\n")
    return (0, int(number), value) if result.returncode == 0 else (result.returncode, None, None)


def opened(item):
    return (ABSENT, None, None) if item.get("expires", NOW) < NOW else (0, item["format"], base64.b64decode(item["value"]))


def check_first(reader, folder, vectors):
    place(folder, vectors)
    for item in vectors["items"]:
        yield item["key"], show(reader, folder, item), opened(item)


def check_copies(reader, folder, vectors):
    """One damaged or missing file of the keybag and the device key has a copy."""
    place(folder, vectors)
    item = vectors["items"][0]
    for name in "keybag", "device-key":
        file = folder / name
        record = file.read_bytes()
        (folder / f"{name}-copy").write_bytes(record)
        (folder / f"{name}-copy").chmod(0o600)
        file.write_bytes(record[:-1] + bytes([record[-1] ^ 1]))
        yield f"a damaged {name}", show(reader, folder, item), opened(item)
        file.unlink()
        yield f"no {name}", show(reader, folder, item), opened(item)
    (folder / "keybag-copy").unlink()
    yield "no keybag and no copy", show(reader, folder, item), (1, None, None)


def check_slots(reader, folder, slots):
    """Each secret opens what it is for; a wrong one, and none, do not."""
    place(folder, slots)
    passcode, code, key = slots["passcode"].encode(), slots["recoveryCode"].encode(), base64.b64decode(slots["key"])
    closed, refused = (DOES_NOT_OPEN, None, None), (1, None, None)
    for item in slots["items"]:
        name, accessibility = item["key"], item["accessibility"]
        yield f"{name}, passcode", show(reader, folder, item, "passcode", passcode), opened(item)
        yield f"{name}, recovery code", show(reader, folder, item, "recovery-code", code), opened(item)
        typed = code.lower().replace(b"-", b" ").replace(b"0", b"o").replace(b"1", b"l")
        yield f"{name}, recovery code as typed", show(reader, folder, item, "recovery-code", typed), opened(item)
        yield f"{name}, key", show(reader, folder, item, "key", key), opened(item) if accessibility in SOME else closed
        yield f"{name}, no secret", show(reader, folder, item), opened(item) if accessibility in ("dk", "dku") else closed
    item = slots["items"][0]
    mistyped = code[:-1] + (b"0" if code[-1:] != b"0" else b"1")
    for kind, secret in (("passcode", passcode + b"!"), ("recovery-code", mistyped), ("key", key[1:])):
        yield f"a wrong {kind}", show(reader, folder, item, kind, secret), refused


def main():
    reader, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    vectors = json.loads(VECTORS.read_text())
    checks = [*check_first(reader, folder / "first", vectors), *check_copies(reader, folder / "copies", vectors),
              *check_slots(reader, folder / "slots", vectors["slots"])]
    wrong = [f"{name}: {found}, expected {expected}" for name, found, expected in checks if found != expected]
    if wrong:
        sys.exit("\n".join(["test-second-reader: vectors:", *wrong]))
    print(f"test-second-reader: {len(vectors['items'])} and {len(vectors['slots']['items'])} items of the vectors, {len(checks)} checks passed")


main()
