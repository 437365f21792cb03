"""The owner of a store, who uses the library through LockboxTestProcess, and copies of everything that the owner has."""
import dataclasses
import json
import os
import pathlib
import secrets
import subprocess

import items
import kernel
from keybag import device_keys
from sodium import digest

CLASSES = {"ak": 1, "ck": 2, "dk": 3, "aku": 4, "cku": 5, "dku": 6, "akpu": 7}
PREFIX = "com.example.process"
ALL, SOME = frozenset({0, 1, 2}), frozenset({0, 2})


class Failed(Exception):
    """A call that threw, by the code of its error."""


@dataclasses.dataclass(frozen=True)
class Secret:
    kind: str
    bytes: bytes
    levels: frozenset = ALL

    @property
    def pair(self):
        return self.kind, self.bytes

    @property
    def json(self):
        return {"kind": self.kind, "secret": self.bytes.decode()}


class Process:
    """LockboxTestProcess, which is started again after a crash."""

    def __init__(self, executable):
        self.executable, self.process, self.crashes = executable, None, []

    def call(self, **fields):
        if not self.process or self.process.poll() is not None:
            self.process = subprocess.Popen(
                [self.executable, "attacks"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                env=os.environ | {"SWIFT_BACKTRACE": "enable=no"})
        self.process.stdin.write(json.dumps(fields) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.crashes.append(fields["call"])
            return {"error": f"crash with status {self.process.returncode}"}
        return json.loads(line)

    def close(self):
        if self.process:
            self.process.stdin.close()
            self.process.wait()


@dataclasses.dataclass
class Copy:
    """The state at one moment."""
    device: bytes
    keybag: bytes
    items: dict
    secrets: dict
    kernel: list

    @property
    def has_passcode(self):
        return any(secret.kind == "passcode" for secret in self.secrets.values())


class Owner:
    def __init__(self, process, folder, device_elsewhere=False):
        self.process, self.folder = process, pathlib.Path(folder)
        self.store = self.folder / "store"
        self.memory = self.folder / "state" / "known-stores"  # of the user
        self.path = str(self.store)  # the form that programs write
        self.running = f"{folder}, running"  # the session of a program that goes on
        self.folder.mkdir()
        self.device_file = self.new_device_file("device") if device_elsewhere else None
        self.secrets, self.sessions, self.identity = {}, 0, None

    def new_device_file(self, name):
        path = self.folder / name
        path.write_bytes(secrets.token_bytes(32))
        path.chmod(0o600)
        return path

    def call(self, call, **fields):
        if self.device_file:
            fields.setdefault("deviceKey", str(self.device_file))
        fields.setdefault("memory", str(self.memory))
        result = self.process.call(call=call, directory=self.path, **fields)
        if result.get("error"):
            raise Failed(result["error"])
        return result

    def any_secret(self):
        return next((secret for secret in self.secrets.values() if secret.levels == ALL), None)

    def session(self):
        """A program that has unlocked the store."""
        self.sessions += 1
        session = f"{self.folder}-{self.sessions}"
        secret = self.any_secret()
        if secret:
            self.call("unlock", session=session, unlock=secret.json)
        else:
            self.call("list", session=session)
        return session

    def write(self, session, name):
        """An item of each class."""
        for accessibility in CLASSES:
            if accessibility != "akpu" or any(secret.kind == "passcode" for secret in self.secrets.values()):
                self.call("write", session=session, key=f"{name} {accessibility}", value=f"{name} {accessibility}",
                          accessibility=accessibility)

    def unlock_for_user(self):
        secret = self.any_secret()
        return self.call("unlockForUser", secret=secret.json)["value"] == "user" if secret else False

    # Changes

    def set_passcode(self, **options):
        self.secrets["passcode"] = self.new_passcode()
        self.call("setPasscode", session=self.session_without_secret(), secret=self.secrets["passcode"].json, **options)

    def session_without_secret(self):
        self.sessions += 1
        return f"{self.folder}-{self.sessions}"

    def new_passcode(self):
        return Secret("passcode", secrets.token_hex(8).encode())

    def change_passcode(self, **options):
        session, new = self.session(), self.new_passcode()
        self.call("changePasscode", session=session, secret=new.json, **options)
        self.secrets["passcode"] = new

    def remove_passcode(self, **options):
        self.call("removePasscode", session=self.session(), **options)
        del self.secrets["passcode"]

    def add_code(self, name="code", **options):
        code = self.call("addRecoveryCode", session=self.session(), **options)["value"]
        self.secrets[name] = Secret("code", code.encode())

    def add_key(self, name="key", levels=SOME, **options):
        new = Secret("key", secrets.token_hex(24).encode(), levels)
        self.call("addKey", session=self.session(), secret=new.json, opensAll=levels == ALL, **options)
        self.secrets[name] = new

    def remove_slot(self, name, **options):
        kind = {"key": "key", "code": "recovery-code"}[self.secrets[name].kind]
        self.call("removeSlot", session=self.session(), value=kind, **options)
        del self.secrets[name]

    def rotate(self):
        self.call("rotateKeys", session=self.session())

    def rotate_device(self):
        new = self.new_device_file("new device")
        self.call("rotateKeys", session=self.session(), newDeviceKey=str(new))
        self.device_file = new

    # Copies

    def device(self):
        if self.device_file:
            return digest(self.device_file.read_bytes())
        return device_keys((self.store / "device-key").read_bytes())[0]

    def files(self):
        return {str(path.relative_to(self.store)): path.read_bytes()
                for path in self.store.glob("items/*-*/*") if path.name != "lock"}

    def kernel_names(self):
        """Asked for before anything is forged or removed."""
        self.identity = self.identity or (self.store / "keybag").read_bytes()[16:32]
        store = items.base32(self.identity + bytes(16))
        return [f"lockbox:{store}:{level}" for level in ("unlocked", "after-first-unlock")]

    def copy(self):
        records = [record for record in map(kernel.read, self.kernel_names()) if record]
        return Copy(self.device(), (self.store / "keybag").read_bytes(), self.files(), dict(self.secrets), records)

    def close(self):
        for name in self.kernel_names():
            kernel.remove(name)
