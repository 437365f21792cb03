"""Records what a file system writes to its disk, and makes the states that a power cut can leave of it."""
import bisect
import contextlib
import dataclasses
import os
import pathlib
import shutil
import struct
import subprocess
import time

from common import Failure, copy, expect, run, unmount

WRITE, FLUSH, MARK = 1, 2, 3
SECTOR = 512
NEAR = 4
# A file system cannot outlive a torn superblock, and relies on disks that do not tear it.
SUPERBLOCKS = {"ext4": [1024], "xfs": [0], "btrfs": [64 << 10, 64 << 20]}


class Unavailable(Exception):
    """There is no recorder here."""


def compile_recorder(folder):
    if not os.path.exists("/dev/fuse"):
        raise Unavailable("there is no /dev/fuse")
    if missing := [tool for tool in ("cc", "pkg-config") if not shutil.which(tool)]:
        raise Unavailable(f"there is no {', no '.join(missing)}")
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "fuse3"], capture_output=True, text=True)
    if flags.returncode:
        raise Unavailable("there is no libfuse3 (packages fuse3 and libfuse3-dev)")
    sources, recorder, no_sync = pathlib.Path(__file__).parent, folder / "recorder", folder / "no-sync.so"
    run("cc", "-O2", "-Wall", "-Wextra", "-Werror", sources / "recorder.c", "-o", recorder, *flags.stdout.split())
    run("cc", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", sources / "no-sync.c", "-o", no_sync)
    return recorder, no_sync


class Recorder:
    """A disk that records. `marks` is the file for marks."""

    def __init__(self, images, program):
        self.images, self.program = images, program
        self.folder = images.folder / "recorder-mountpoint"
        self.folder.mkdir()
        self.marks = self.folder / "marks"

    @contextlib.contextmanager
    def recording(self, image):
        """Yields the log, which can be read afterwards."""
        path = self.images.folder / "log"
        log = Log(path, self.images.kind)
        process = subprocess.Popen([self.program, self.folder, image, path], stderr=subprocess.PIPE, text=True)
        try:
            self.wait_for(process)
            try:
                with self.images.mounted(self.folder / "disk"):
                    yield log
            finally:
                unmount(self.folder)
            expect(subprocess.CompletedProcess([], process.wait(30), "", ""), "recorder")
            log.read()
        finally:
            process.kill()
            process.wait()
            process.stderr.close()

    def wait_for(self, process):
        for _ in range(100):
            if self.marks.exists():
                return
            if process.poll() is not None:
                raise Unavailable(f"the recorder does not start: {process.stderr.read().strip()}")
            time.sleep(0.05)
        raise Unavailable("the recorder does not start")


@dataclasses.dataclass
class Record:
    kind: int
    offset: int
    data: bytes


class Log:
    """Writes, flushes and marks in their order. A position is a number of records: what had arrived by then."""

    def __init__(self, path, file_system):
        self.path, self.superblocks = path, SUPERBLOCKS[file_system]
        self.records = []

    def read(self):
        content = memoryview(self.path.read_bytes())
        position = 0
        while position < len(content):
            kind, offset, length = struct.unpack_from("=QQQ", content, position)
            position += 24
            self.records.append(Record(kind, offset, bytes(content[position: position + length])))
            position += length
        self.path.unlink()
        self.begin, self.end = (self.position_of(mark) for mark in (b"begins\n", b"ends\n"))

    def position_of(self, mark):
        for index, record in enumerate(self.records):
            if record.kind == MARK and record.data == mark:
                return index + 1
        raise Failure(f"the recorder has not seen that the operation {mark.decode().strip()}")

    def positions(self):
        """From the operation's beginning: each after which another state can be left."""
        later = range(self.begin + 1, len(self.records) + 1)
        return [self.begin, *(number for number in later if self.records[number - 1].kind == WRITE)]

    def positions_near_calls(self):
        """Those before the return that are within some writes of a system call of the library."""
        calls = [index for index, record in enumerate(self.records) if record.data == b"call\n"]
        return [position for position in self.positions() if position < self.end
                and any(abs(position - call) <= NEAR for call in nearest(calls, position))]

    def is_done(self, position):
        return position >= self.end

    def flushed(self, position):
        """How many of the records before the position are on the disk for certain."""
        return next((number for number in range(position, 0, -1) if self.records[number - 1].kind == FLUSH), 0)

    def pending(self, position):
        return [record for record in self.records[self.flushed(position): position] if record.kind == WRITE]

    def count(self, kind):
        return sum(record.kind == kind for record in self.records[self.begin: self.end])

    # The states

    def whole(self, position):
        """Everything that had arrived."""
        return State(position, self.flushed(position), self.pending(position), "everything written")

    def minimum(self, position):
        """Nothing but what was flushed."""
        return State(position, self.flushed(position), [], "nothing after the last flush")

    def random(self, position, random):
        """Of each write since the last flush everything, nothing, its first sectors, or some of its sectors.

        The order needs no choice: it matters only where two writes overlap, and the later one may be left out.
        """
        pending, chosen, whole, torn = self.pending(position), [], [], 0
        for record in pending:
            choice = random.choices(("whole", "none", "first", "some"), (35, 30, 15, 20))[0]
            if choice in ("first", "some") and self.may_tear(record):
                parts = first_sectors(record, random) if choice == "first" else some_sectors(record, random)
                chosen += parts
                torn += 1
            elif choice != "none":
                chosen.append(record)
            if choice != "none":
                whole.append(record)
        what = f"{len(chosen)} pieces of {len(pending)} writes after the last flush, {torn} of them torn"
        untorn = State(position, self.flushed(position), whole, f"{what}, whole") if torn else None
        return State(position, self.flushed(position), chosen, what, untorn)

    def may_tear(self, record):
        end = record.offset + len(record.data)
        return len(record.data) > SECTOR and not any(record.offset <= block < end for block in self.superblocks)


def nearest(numbers, number):
    index = bisect.bisect(numbers, number)
    return numbers[max(index - 1, 0): index + 1]


def first_sectors(record, random):
    length = SECTOR * random.randrange(1, len(record.data) // SECTOR)
    return [Record(WRITE, record.offset, record.data[:length])]


def some_sectors(record, random):
    starts = range(0, len(record.data), SECTOR)
    return [Record(WRITE, record.offset + start, record.data[start: start + SECTOR])
            for start in starts if random.random() < 0.5]


@dataclasses.dataclass
class State:
    """The disk after a power cut at a position: everything before `flushed`, and the chosen writes after it."""
    position: int
    flushed: int
    chosen: list
    what: str
    untorn: "State | None" = None  # the same with nothing torn


class Disk:
    """Makes states, the earlier ones first, from the image that was recorded from."""

    def __init__(self, log, image, folder):
        self.log, self.path = log, folder / "state"
        self.durable, self.applied = folder / "durable", 0
        copy(image, self.durable)

    def make(self, state):
        if state.flushed < self.applied:
            raise Failure("a state that is earlier than the last")
        records = self.log.records[self.applied: state.flushed]
        apply([record for record in records if record.kind == WRITE], self.durable)
        self.applied = state.flushed
        copy(self.durable, self.path)
        apply(state.chosen, self.path)
        return self.path


def apply(writes, image):
    with open(image, "r+b") as file:
        for record in writes:
            file.seek(record.offset)
            file.write(record.data)
