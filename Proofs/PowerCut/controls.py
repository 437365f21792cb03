"""Must lose something, or the recorded states prove nothing: what is not synchronized, and what is written in place."""
import collections
import os
import subprocess

from common import copy
from recording import Disk

LENGTH = 64 << 10
ROUNDS = 12


class Controls:
    def __init__(self, images, recorder, random):
        self.images, self.random = images, random
        self.recorder = recorder
        self.file = images.mountpoint / "file"
        self.prepared, self.disk = images.folder / "prepared", images.folder / "recorded"

    def run(self):
        """How many of the controls did not work."""
        return sum([
            self.control("written and renamed, not synchronized", self.rename, self.after_end, {"old", "torn"}),
            self.control("overwritten in place", self.overwrite, self.before_end, {"torn"}),
        ])

    def control(self, name, change, choose, must_find):
        copy(self.images.empty, self.prepared)
        with self.images.mounted(self.prepared):
            self.file.touch()
            if self.images.kind == "btrfs":  # else it writes nothing in place
                subprocess.run(["chattr", "+C", self.file], check=True)
            self.file.write_bytes(b"o" * LENGTH)
        copy(self.prepared, self.disk)
        with self.recorder.recording(self.disk) as log:
            self.mark("begins")
            change()
            self.mark("ends")
        found, disk = collections.Counter(), Disk(log, self.prepared, self.images.folder)
        for state in choose(log):
            with self.images.mounted(disk.make(state)):
                found[self.look()] += 1
        is_caught = bool(must_find & found.keys())
        counts = ", ".join(f"{count} {what}" for what, count in sorted(found.items()))
        verdict = "caught" if is_caught else "MISSED: the experiment proves nothing"
        print(f"{self.images.kind}: control, a file {name}: {counts}; {verdict}", flush=True)
        return not is_caught

    def mark(self, name):
        with open(self.recorder.marks, "w") as marks:
            marks.write(f"{name}\n")

    def rename(self):
        temporary = self.file.with_suffix(".tmp")
        temporary.write_bytes(b"n" * LENGTH)
        temporary.rename(self.file)

    def overwrite(self):
        with open(self.file, "r+b", buffering=0) as file:
            file.write(b"n" * LENGTH)  # one call
            os.fsync(file.fileno())

    def after_end(self, log):
        return [log.minimum(log.end), *(log.random(log.end, self.random) for _ in range(ROUNDS // 2))]

    def before_end(self, log):
        positions = [position for position in log.positions() if position < log.end and log.pending(position)]
        return [log.random(position, self.random)
                for position in sorted(self.random.choices(positions, k=ROUNDS))]

    def look(self):
        content = set(self.file.read_bytes()) if self.file.exists() else set()
        return {frozenset(b"o"): "old", frozenset(b"n"): "new"}.get(frozenset(content), "torn")
