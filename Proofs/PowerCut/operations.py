"""Power cuts within an operation: at each position of what it wrote to the disk."""
import collections
import contextlib
import os
import subprocess
import threading
import time

from common import AFTER_START, ENVIRONMENT, Failure, copy, expect, first_line
from recording import FLUSH, WRITE, Disk

ALONE, BESIDE = "alone", "beside fsync"
SHOWN = 10  # violations of a run
CONTROL_STATES = 10
# A failure: the state cannot be mounted, or the check does not end. Of some tears a file system does not recover: it
# relies on a disk that writes its blocks as a whole.
NOT_MOUNTED = "not mounted"
STATES = ("old", "between", "new", NOT_MOUNTED, "violation", "failure")
PLANTED = [  # operation, and what it does not synchronize
    ("replace", "files"), ("replace", "folders"), ("remove", "folders"), ("export", "files"), ("export", "folders"),
]


class Operations:
    def __init__(self, images, executable, recorder, no_sync, options, random):
        self.images, self.executable, self.options, self.random = images, executable, options, random
        self.recorder, self.no_sync = recorder, no_sync
        self.folder = images.mountpoint / "var" / "lib" / "operation"
        self.prepared, self.disk = images.folder / "prepared", images.folder / "recorded"
        self.violations = self.states = 0

    def names(self):
        return self.lockbox("list").stdout.splitlines()

    def lockbox(self, command, *arguments, environment={}, timeout=300):
        result = subprocess.run(
            [*AFTER_START, self.executable, "power", command, *map(str, arguments)], capture_output=True, text=True,
            env=ENVIRONMENT | environment, timeout=timeout,
        )
        expect(result, " ".join([command, *map(str, arguments)]))
        return result

    def prepare(self, name):
        copy(self.images.empty, self.prepared)
        with self.images.mounted(self.prepared):  # unmounting synchronizes it
            if name != "first write":  # that makes the parents, too: they must survive as well
                self.folder.mkdir(parents=True)
                self.lockbox("prepare", name, self.folder)

    def test(self, name):
        self.prepare(name)
        for beside in (ALONE, BESIDE):
            start = time.monotonic()
            log = self.record(name, beside)
            found, problems = self.check_all(name, log, self.choose(log))
            control = "–"
            if beside == ALONE:
                control, more = self.control(name)
                problems += more
            self.report(name, beside, log, found, problems, control, time.monotonic() - start)

    def record(self, name, beside=ALONE, environment={}):
        copy(self.prepared, self.disk)
        with self.recorder.recording(self.disk) as log:
            with synchronizing(self.images.mountpoint / "unrelated") if beside == BESIDE else contextlib.nullcontext():
                self.lockbox("run", name, self.folder,
                             environment={"LOCKBOX_MARKS": str(self.recorder.marks)} | environment)
        if not log.count(FLUSH) and not environment:
            raise Failure(f"{name}: the recorder has seen no flush")
        return log

    def choose(self, log):
        """States in the order of their positions: whole prefixes and random ones, and some just after the return."""
        positions, ended = log.positions(), log.end
        if self.options.full:
            prefixes, subsets = positions, positions * self.options.subsets
        else:
            prefixes, subsets = self.sample(log, log.positions_near_calls() or positions, 2 / 3)
            for chosen, more in zip((prefixes, subsets), self.sample(log, positions, 1 / 3)):
                chosen += more
        states = [log.minimum(ended), log.random(ended, self.random), *map(log.whole, prefixes)]
        states += [log.random(position, self.random) for position in subsets if log.pending(position)]
        return sorted(states, key=lambda state: state.position)

    def sample(self, log, positions, share):
        """Positions for whole states, and for random ones: rather where more is pending."""
        count = int(self.options.states * share / 2)
        weights = [len(log.pending(position)) + 0.1 for position in positions]
        return (self.random.sample(positions, min(count, len(positions))),
                self.random.choices(positions, weights, k=count))

    def check_all(self, name, log, states, until_wrong=False):
        found, problems = collections.Counter(), []
        disk = Disk(log, self.prepared, self.images.folder)
        for state in states:
            answer = self.check(name, disk.make(state), log.is_done(state.position))
            if answer.startswith("failure: mount:") and state.untorn:
                answer = self.check(name, disk.make(state.untorn), log.is_done(state.position))
                found[NOT_MOUNTED] += 1
            kind, _, problem = answer.partition(": ")
            found[kind] += 1
            if problem:
                when = "after the return" if log.is_done(state.position) else "before the return"
                where = f"position {state.position - log.begin} of {log.end - log.begin}"
                problems.append(f"{where}, {when}, {state.what}: {problem}")
                if until_wrong:
                    break
                self.keep(disk.make(state), f"{name}, {len(problems)}")
        return found, problems

    def keep(self, image, name):
        if self.options.keep:
            copy(image, self.options.keep / f"{self.images.kind}, {name}")

    def check(self, name, image, is_done):
        try:
            with self.images.mounted(image):
                answer = self.lockbox("check", name, self.folder, "done" if is_done else "cut")
                return answer.stdout.strip() or "violation: no answer"
        except Failure as failure:
            return f"failure: {failure}"
        except subprocess.TimeoutExpired:
            return "failure: the check hangs"

    def control(self, name):
        """A library that never synchronizes must be caught: what it acknowledged is not there."""
        if self.is_caught(name, "all"):
            return "caught", []
        return "missed", ["control, no fsync: the check does not see it"]

    def planted(self):
        """A library that forgets one kind of fsync must be caught."""
        for name, forgotten in PLANTED:
            self.prepare(name)
            is_caught = self.is_caught(name, forgotten)
            verdict = "caught" if is_caught else "MISSED"
            print(f"{self.images.kind}: control, {name} without the fsync of {forgotten}: {verdict}", flush=True)
            self.violations += not is_caught

    def is_caught(self, name, forgotten):
        log = self.record(name, environment={"LD_PRELOAD": str(self.no_sync), "LOCKBOX_NO_SYNC": forgotten})
        ends = [log.random(log.end, self.random) for _ in range(CONTROL_STATES)]
        later = [log.random(position, self.random)
                 for position in log.positions() if position > log.end][:CONTROL_STATES]
        found, _ = self.check_all(name, log, [log.minimum(log.end), *ends, *later], until_wrong=True)
        return found["violation"] > 0

    def report(self, name, beside, log, found, problems, control, seconds):
        counts = ", ".join(f"{found[state]} {state}" for state in STATES if found[state])
        print(
            f"| {self.images.kind} | {name} | {beside} | {log.count(WRITE)} | {log.count(FLUSH)} |"
            f" {len(log.positions())} | {found.total()} | {counts} | {control} | {len(problems)} | {seconds:.0f} s |",
            flush=True,
        )
        for problem in problems[:SHOWN]:
            print(f"VIOLATION: {self.images.kind}, {name}, {beside}: {problem}", flush=True)
        if len(problems) > SHOWN:
            print(f"and {len(problems) - SHOWN} more", flush=True)
        self.violations += len(problems)
        self.states += found.total()


@contextlib.contextmanager
def synchronizing(path):
    """Another process's file is synchronized all the time: names may get to the disk before the bytes they stand for."""
    is_over, failures = threading.Event(), []

    def work():
        try:
            with open(path, "w") as file:
                while not is_over.is_set():
                    file.write("unrelated\n")
                    file.flush()
                    os.fsync(file.fileno())
        except OSError as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
    if failures:
        raise Failure(f"the file beside: {failures[0]}")
