"""The file systems that can be had here: each a context manager that gives a fresh folder on it."""
import contextlib
import os
import pathlib
import shutil
import subprocess
import tempfile

MAKE = {  # the command, and the size of its image in MiB
    "ext4": (["mkfs.ext4", "-q", "-F"], 256),
    "ext4-128": (["mkfs.ext4", "-q", "-F", "-I", "128"], 256),  # inodes without room for fractions of a second
    "xfs": (["mkfs.xfs", "-q", "-f"], 320),
    "btrfs": (["mkfs.btrfs", "-q", "-f"], 256),
}
NAMES = [*MAKE, "tmpfs", "overlay", "bindfs"]


class Unavailable(Exception):
    """It cannot be had here; the message says why."""


def run(*command):
    try:
        result = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    except FileNotFoundError:
        raise Unavailable(f"there is no {command[0]}") from None
    if result.returncode:
        text = (result.stderr or result.stdout).strip().partition("\n")[0]
        raise Unavailable(f"{command[0]}: status {result.returncode}: {text}")


def image_folder():
    """In memory, if there is room: then the checker's time goes into calls, not into a disk's."""
    memory = pathlib.Path("/dev/shm")
    if os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 2 << 30:
        return memory
    return None


@contextlib.contextmanager
def folder(path):
    """A folder of one's own in a folder that is there."""
    made = pathlib.Path(tempfile.mkdtemp(prefix="lockbox-history.", dir=path))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextlib.contextmanager
def mounted(name):
    if os.geteuid():
        raise Unavailable("not root")
    with folder(image_folder() if name in MAKE else None) as place:
        point = place / "mountpoint"
        point.mkdir()
        mount(name, place, point)
        try:
            with folder(point) as store:
                yield store
        finally:
            # Lazily, if something still holds it: nothing may be left behind.
            if subprocess.run(["umount", point], capture_output=True).returncode:
                subprocess.run(["umount", "--lazy", point], capture_output=True)


def mount(name, place, point):
    if name in MAKE:
        command, size = MAKE[name]
        image = place / "image"
        with open(image, "wb") as file:
            file.truncate(size << 20)
        run(*command, image)
        run("mount", "-o", "loop", image, point)
    elif name == "tmpfs":
        run("mount", "-t", "tmpfs", "-o", "size=256m", "tmpfs", point)
    elif name == "overlay":
        lower, upper, work = (place / part for part in ("lower", "upper", "work"))
        for part in (lower, upper, work):
            part.mkdir()
        run("mount", "-t", "overlay", "-o", f"lowerdir={lower},upperdir={upper},workdir={work}", "overlay", point)
    elif name == "bindfs":
        source = place / "source"
        source.mkdir()
        run("bindfs", source, point)
    else:
        raise Unavailable("it is not known")
