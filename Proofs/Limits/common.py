"""The parts have this in common: processes that are always ended, a report, and tables."""
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENVIRONMENT = os.environ | {"SWIFT_BACKTRACE": "enable=no"}
PREFIX = "com.example.limits"


class Report:
    """The values out of bounds."""

    def __init__(self):
        self.failures = []

    def check(self, holds, description):
        if not holds:
            self.failures.append(description)
            print(f"out of bounds: {description}", flush=True)


class Machine:
    """Starts processes and makes folders, and ends and removes all of them."""

    def __init__(self, executable):
        self.executable = executable
        self.processes, self.folders = [], []

    def __enter__(self):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        for folder in self.folders:
            shutil.rmtree(folder, ignore_errors=True)

    def folder(self, parent=None):
        self.folders.append(tempfile.mkdtemp(prefix="lockbox-limits.", dir=parent))
        return self.folders[-1]

    def remove(self, folder):
        shutil.rmtree(folder)
        self.folders.remove(folder)

    def start(self, *command):
        process = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
        )
        self.processes.append(process)
        return process

    def limits(self, *arguments):
        """LockboxTestProcess, not waited for."""
        return self.start(self.executable, "limits", *arguments)

    def lines(self, *arguments):
        """The lines that LockboxTestProcess prints, each as its fields."""
        return finish(self.limits(*arguments), close=True)

    def fill(self, store, prefix, count, lifetime="-"):
        """Makes items in as many processes as there are cores."""
        parts = min(os.cpu_count() or 1, max(count // 1000, 1))
        bounds = [count * part // parts for part in range(parts + 1)]
        fillers = [
            self.limits("fill", store, prefix, first, last - first, lifetime)
            for first, last in zip(bounds, bounds[1:])
        ]
        for filler in fillers:
            finish(filler)


def finish(process, close=False):
    if close:
        process.stdin.close()
    output = process.stdout.read()
    process.wait()
    if process.returncode:
        raise SystemExit(f"Limits: failed: {' '.join(process.args)}: status {process.returncode}")
    return [line.split("\t") for line in output.splitlines()]


def expect(process, word):
    line = process.stdout.readline()
    if line != f"{word}\n":
        raise SystemExit(f"Limits: failed: {' '.join(process.args)}: {line!r}, not {word!r}")


def begin(processes):
    """All of them are ready before any begins."""
    for process in processes:
        expect(process, "ready")
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()


class Times:
    """How long the calls of several writers took, in seconds."""

    def __init__(self, processes):
        self.writers, self.failures = [], []
        for line in (line for process in processes for line in finish(process)):
            if line[0] == "times":
                self.writers.append([int(word) / 1e9 for word in line[1].split()])
            else:
                self.failures.append(line[1])
        self.all = sorted(time for writer in self.writers for time in writer)

    def quantile(self, share):
        return self.all[min(int(len(self.all) * share), len(self.all) - 1)]

    @property
    def median(self):
        return self.quantile(0.5)

    @property
    def mean(self):
        return statistics.mean(self.all)

    @property
    def worst(self):
        return self.all[-1]

    @property
    def shares(self):
        """The fewest and the most calls of one writer, of the mean."""
        counts = [len(writer) for writer in self.writers]
        return min(counts) / statistics.mean(counts), max(counts) / statistics.mean(counts)


def memory_folder(items, part):
    """Where that many small files fit into memory, or None: TMPDIR."""
    space = os.statvfs("/dev/shm") if os.path.isdir("/dev/shm") else None
    # A page for its bytes, another KiB for its inode and its name.
    if space and space.f_bavail * space.f_frsize > items * 6 * 1024:
        return "/dev/shm"
    print(f"{part}: in TMPDIR, as /dev/shm has no room for {items:,} files; the times are the disk's")
    return None


def milliseconds(seconds):
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.2f} s"


def table(header, rows):
    print("| " + " | ".join(header) + " |\n|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |", flush=True)
    print()
