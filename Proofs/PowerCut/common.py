"""Images, mounts, and the process under test."""
import contextlib
import os
import pathlib
import shutil
import subprocess
import time

ENVIRONMENT = os.environ | {"SWIFT_BACKTRACE": "enable=no", "SWIFT_DETERMINISTIC_HASHING": "1"}
# A power cut takes the kernel's keyrings, which would know of a keybag that the disk has no more. A new user namespace has none.
AFTER_START = ["unshare", "--user", "--map-root-user"]
FILE_SYSTEMS = {  # with the size in MiB, hardly more than mkfs asks for
    "ext4": (64, ["mkfs.ext4", "-q", "-F"], "e2fsprogs"),
    "xfs": (300, ["mkfs.xfs", "-q", "-f"], "xfsprogs"),
    "btrfs": (128, ["mkfs.btrfs", "-q", "-f"], "btrfs-progs"),
}
# By default ext4 writes a file's bytes when it replaces another by rename, which hides that they are not synchronized.
OPTIONS = {"ext4": ["noauto_da_alloc"]}


class Failure(Exception):
    """The experiment itself did not work."""


class Images:
    """Makes images of one kind of file system, and mounts them."""

    def __init__(self, kind, folder):
        self.kind, self.folder = kind, folder
        self.mountpoint = folder / "mountpoint"
        self.mountpoint.mkdir()
        size, mkfs, _ = FILE_SYSTEMS[kind]
        self.empty = folder / "empty"
        with open(self.empty, "wb") as image:
            image.truncate(size << 20)
        run(*mkfs, self.empty)
        with self.mounted(self.empty):
            pass

    @contextlib.contextmanager
    def mounted(self, image):
        options = ",".join(["loop", *OPTIONS.get(self.kind, [])])
        run("mount", "-t", self.kind, "-o", options, image, self.mountpoint)
        try:
            # btrfs knows a file system by its UUID: if a copy is still in use somewhere, mount gives that one.
            if (mounted := image_at(self.mountpoint)) != str(image):
                raise Failure(f"{mounted} was mounted, and not {image}")
            yield
        finally:
            unmount(self.mountpoint)


def image_at(mountpoint):
    lines = pathlib.Path("/proc/self/mounts").read_text().splitlines()
    device = next(line.split()[0] for line in reversed(lines) if line.split()[1] == str(mountpoint))
    return pathlib.Path("/sys/block", pathlib.Path(device).name, "loop/backing_file").read_text().strip()


def unmount(mountpoint):
    # A process that was just killed, or the loop device above it, may let go a little later.
    for attempt in range(50):
        result = subprocess.run(["umount", mountpoint], capture_output=True, text=True)
        if result.returncode == 0:
            return
        time.sleep(0.1)
    expect(result, "umount")


def unmount_all(folder):
    """Unmounts what an interrupted run has left, the last first."""
    lines = pathlib.Path("/proc/self/mounts").read_text().splitlines()
    for path in reversed([line.split()[1] for line in lines]):
        if path.startswith(f"{folder}/"):
            subprocess.run(["umount", "--lazy", path])


def run(*command, **options):
    expect(subprocess.run(list(map(str, command)), capture_output=True, text=True, **options), command[0])


def expect(result, name):
    if result.returncode:
        raise Failure(f"{name}: status {result.returncode}: {first_line(result.stderr or result.stdout)}")


def first_line(text):
    return text.strip().partition("\n")[0]


def copy(source, target):
    run("cp", "--sparse=always", source, target)


def missing_tools(kind):
    _, mkfs, package = FILE_SYSTEMS[kind]
    needed = ((mkfs[0], package), ("mount", "mount"))
    return [f"{tool} (package {of})" for tool, of in needed if not shutil.which(tool)]
