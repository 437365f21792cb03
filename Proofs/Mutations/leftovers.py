"""The leftovers of a process that is killed in the middle of its tests: children, files, and keys in the kernel."""
import base64
import contextlib
import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import threading

SYS_KEYCTL = {"x86_64": 250, "aarch64": 219}.get(os.uname().machine)
KEYCTL_REVOKE, KEYCTL_UNLINK, KEYCTL_SEARCH, KEY_SPEC_USER_KEYRING = 3, 9, 10, -4
LEVELS = ["unlocked", "after-first-unlock"]  # SharedUnlock's names


class Sessions:
    """Processes, each with all that it starts."""

    def __init__(self):
        self.leaders, self.is_over, self.lock = set(), False, threading.Lock()

    @contextlib.contextmanager
    def running(self, command, folder, environment):
        with self.lock:
            if self.is_over:
                raise RuntimeError("interrupted")
            process = subprocess.Popen(
                list(map(str, command)), cwd=folder, env=environment, text=True, errors="replace",
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
            )
            self.leaders.add(process.pid)
        try:
            yield process
        finally:
            kill_session(process.pid)
            process.wait()
            process.stdout.close()
            with self.lock:
                self.leaders.discard(process.pid)

    def end(self):
        """Kills all of them; no other can be started."""
        with self.lock:
            self.is_over = True
            for leader in self.leaders:
                kill_session(leader)


def kill_session(leader):
    """Kills all that is in a session still, also in groups of its own."""
    while members := [number for number in processes() if session(number) == leader]:
        for number in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)


def processes():
    return [int(entry.name) for entry in pathlib.Path("/proc").iterdir() if entry.name.isdigit()]


def session(number):
    """Of a process; None if it is dead."""
    try:
        fields = pathlib.Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[3])


def empty(folder):
    """Removes what is in it, and the keys that the kernel holds for the stores in it."""
    for place, _, _ in os.walk(folder):
        os.chmod(place, 0o711)  # tests leave folders that nobody may enter, and some become another user
    for keybag in folder.rglob("keybag"):
        with contextlib.suppress(OSError):
            if keybag.is_file():
                remove_kernel_keys(keybag.read_bytes()[16:32])
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink()


def remove_kernel_keys(store):
    """Those of the store with this id."""
    if not SYS_KEYCTL or len(store) != 16:
        return
    name = base64.b32encode(store + bytes(16)).decode().lower().rstrip("=")
    call = ctypes.CDLL(None).syscall
    for level in LEVELS:
        key = call(SYS_KEYCTL, KEYCTL_SEARCH, KEY_SPEC_USER_KEYRING, b"user", f"lockbox:{name}:{level}".encode(), 0)
        if key > 0:
            call(SYS_KEYCTL, KEYCTL_REVOKE, key)
            call(SYS_KEYCTL, KEYCTL_UNLINK, key, KEY_SPEC_USER_KEYRING)
