"""Power cuts before every system call of a write or a removal, alone and followed by another process.

A file system in an image file is copied while it is mounted. What was not synchronized is in the kernel's memory, and
therefore not in the copy, as after a power cut. Then the copy is mounted, which replays its journal, and looked at.
"""
import collections
import itertools
import os
import signal
import subprocess

from common import AFTER_START, ENVIRONMENT, Failure, copy, expect, first_line

KEY, ABSENT = "key", "absent"
FOLLOW_UPS = AT_ONCE, OTHER_FSYNC, RETRY = "at once", "after another file's fsync", "after another process's retry"
# A short value fits into btrfs's metadata, a long one gets blocks of its own.
SIZES = {"short": 10, "long": 50_000}


def value(word, size):
    return word * (SIZES[size] // len(word))


class Calls:
    def __init__(self, images, executable):
        self.kind, self.executable, self.mounted = images.kind, executable, images.mounted
        self.empty, self.mountpoint = images.empty, images.mountpoint
        self.prepared, self.disk, self.copy = (images.folder / name for name in ("prepared", "disk", "copy"))
        # Its parents do not exist either, and must survive as well.
        self.store = self.mountpoint / "var" / "lib" / "store"
        self.violations = 0

    def run(self):
        self.control()
        self.scenario("first write", ABSENT, "new")
        self.scenario("replace", "old", "new")
        self.scenario("replace just after a write", "old", "new", is_before_synchronized=False)
        self.scenario("removal", "old", ABSENT)

    def lockbox(self, command, *arguments):
        return subprocess.run(
            [*AFTER_START, self.executable, command, self.store, KEY, *map(str, arguments)],
            capture_output=True, text=True, env=ENVIRONMENT,
        )

    def cut_power(self):
        copy(self.disk, self.copy)

    def synchronize_another_file(self):
        # Commits the whole journal on some file systems: names may get to the disk before the bytes they stand for.
        with open(self.mountpoint / "unrelated", "w") as file:
            file.write("unrelated")
            file.flush()
            os.fsync(file.fileno())

    # The library

    def scenario(self, name, before, after, is_before_synchronized=True):
        """Replaces `before` by `after`, each a word or ABSENT, and counts what the power cuts leave."""
        cuts, problems = collections.Counter(), []
        for size, follow_up in itertools.product(SIZES, FOLLOW_UPS):
            words = {value(word, size): word for word in (before, after) if word != ABSENT}
            last = [] if after == ABSENT else [value(after, size)]

            def prepare_store():
                if before != ABSENT:
                    expect(self.lockbox("write", value(before, size)), "prepare")

            copy(self.empty, self.prepared)
            if is_before_synchronized:
                with self.mounted(self.prepared):  # unmounting synchronizes it
                    prepare_store()
            for number in itertools.count(1):
                copy(self.prepared, self.disk)
                with self.mounted(self.disk):
                    if not is_before_synchronized:
                        prepare_store()
                    died = self.lockbox("die", *last, number)
                    if died.returncode not in (0, -signal.SIGKILL):
                        expect(died, f"{name}, die before call {number}")
                    is_acknowledged = died.returncode == 0
                    if follow_up == OTHER_FSYNC:
                        self.synchronize_another_file()
                    elif follow_up == RETRY:
                        # It must make durable also what the dead one left.
                        expect(self.lockbox("write" if last else "remove", *last), name)
                        is_acknowledged = True
                    self.cut_power()
                with self.mounted(self.copy):
                    left, problem = self.look(words, before, after, is_acknowledged)
                cuts[left] += 1
                if problem:
                    death = f"died before call {number}" if died.returncode else "returned"
                    problems.append(f"{size} value, {death}, power cut {follow_up}: {problem}")
                if died.returncode == 0:
                    break
        self.report(name, cuts, problems)

    def look(self, words, before, after, is_acknowledged):
        """What is left, and what is wrong with it."""
        result = self.lockbox("read")
        if result.returncode == 0:
            left = words.get(result.stdout.rstrip("\n"), "garbage")
        else:
            left = ABSENT if result.returncode == 1 else "error"
        if left not in ((after,) if is_acknowledged else (before, after)):
            return left, f"{left} instead of {after}. {first_line(result.stderr)}"
        again = self.lockbox("write", "again")
        if again.returncode or self.lockbox("read").stdout != "again\n":
            return left, f"cannot be written to any more. {first_line(again.stderr)}"
        if leftovers := os.listdir(self.store / "tmp"):
            return left, f"leftovers in tmp: {leftovers}"
        return left, None

    # The control

    def control(self):
        """Must lose something: a file written and renamed, but never synchronized."""
        cuts = collections.Counter()
        for size, before, follow_up in itertools.product(SIZES, (ABSENT, "old"), (AT_ONCE, OTHER_FSYNC)):
            file = self.mountpoint / "file"
            copy(self.empty, self.prepared)
            if before != ABSENT:
                with self.mounted(self.prepared):
                    file.write_text(value(before, size))
            copy(self.prepared, self.disk)
            with self.mounted(self.disk):
                temporary = file.with_suffix(".tmp")
                temporary.write_text(value("new", size))
                temporary.rename(file)
                if follow_up == OTHER_FSYNC:
                    self.synchronize_another_file()
                self.cut_power()
            with self.mounted(self.copy):
                found = file.read_text() if file.exists() else None
            names = {None: ABSENT, "": "empty", value("old", size): "old", value("new", size): "new"}
            cuts[names.get(found, "garbage")] += 1
        is_lost = cuts.total() > cuts["new"]
        self.report("control: no fsync", cuts, [] if is_lost else ["lost nothing: the experiment proves nothing"])

    def report(self, name, cuts, problems):
        counts = ", ".join(f"{count} {left}" for left, count in sorted(cuts.items()))
        print(f"{self.kind:5}  {name:26}  {cuts.total():3} cuts: {counts}; {len(problems)} violations", flush=True)
        for problem in problems:
            print(f"       VIOLATION: {problem}", flush=True)
        self.violations += len(problems)
