"""What waits behind a process that was stopped with the lock in its hands, and for how long."""
import signal

from common import PREFIX, expect, finish, milliseconds, table
import fairness

TIMEOUT = 1  # seconds
WRITERS = 8
SIZES = [1, 10, 300, 5000]
AT_ONCE = 0.5  # seconds: listing 5,000 items takes a tenth of that
FORMS = [
    ("8 threads of one backend", 1, WRITERS, "one"),
    ("8 threads, a backend each", 1, WRITERS, "each"),
    ("8 processes", WRITERS, 1, "one"),
]
PASSING_ON = [fairness.FORMS[0], fairness.FORMS[2], fairness.FORMS[4]]
# Milliseconds. Of a write only the rename is under the lock, so eight writers take turns of 1.6 s.
SLOW_DISK = 200


class Stopped:
    """A process that has taken a lock and was stopped."""

    def __init__(self, machine, store, prefix):
        self.process = machine.limits("hold", store, prefix)
        expect(self.process, "held")
        self.process.send_signal(signal.SIGSTOP)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGCONT)
        finish(self.process, close=True)


def run(machine, options, report):
    folder = machine.folder(options.folder)
    store = f"{folder}/store"
    machine.fill(store, PREFIX, 1)
    give_up(machine, store, report)
    pass_on(machine, store, report)
    look(machine, store, report)
    machine.remove(folder)


def give_up(machine, store, report):
    """Each writer gives up after the time limit, not after those before it have given up."""
    rows = []
    for name, processes, threads, backends in FORMS:
        with Stopped(machine, store, PREFIX):
            waiting = [machine.limits("wait", store, PREFIX, TIMEOUT, threads, backends) for _ in range(processes)]
            lines = [line for process in waiting for line in finish(process, close=True)]
        times = sorted(float(time) for time, _ in lines)
        locked = sum(outcome == "locked" for _, outcome in lines)
        rows.append([name, f"{locked} of {WRITERS}", milliseconds(times[0]), milliseconds(times[-1])])
        report.check(locked == WRITERS, f"{name} behind a stopped one: {locked} of {WRITERS} gave up")
        report.check(times[0] >= TIMEOUT, f"{name} behind a stopped one: gave up after {times[0]:.2f} s")
        report.check(times[-1] <= 2 * TIMEOUT, f"{name} behind a stopped one: waited {times[-1]:.2f} s")
    table([f"behind a stopped one, time limit {TIMEOUT} s", "gave up", "first", "last"], rows)


def pass_on(machine, store, report):
    """Nobody gives up while the lock changes hands, however long that takes in all."""
    rows = []
    for form in PASSING_ON:
        times = fairness.write(machine, store, form, seconds=8, slow_disk=SLOW_DISK, timeout=TIMEOUT)
        rows.append([form[0], len(times.all), milliseconds(times.worst), len(times.failures)])
        fairness.check_failures(f"passing on: {form[0]}", times, report)
        # Otherwise nothing was shown.
        report.check(times.worst > TIMEOUT, f"passing on: {form[0]}: nobody waited longer than the time limit")
    header = [f"fsync and rename {SLOW_DISK} ms slower, time limit {TIMEOUT} s", "writes", "longest wait", "failures"]
    table(header, rows)


def look(machine, store, report):
    """Reads, look-ups and lists wait for nobody who was stopped, and lists are complete."""
    rows = []
    for size in SIZES:
        prefix = f"{PREFIX}.{size}"
        machine.fill(store, prefix, size)
        for held in ["the prefix's lock", "the root's lock"]:
            with Stopped(machine, store, prefix if held.startswith("the p") else "-"):
                lines = machine.lines("look", store, prefix, size)
            rows.append([f"{size:,}", held, *(cell(*line) for line in lines)])
            for name, time, outcome in lines:
                described = f"{name} of {size} items behind a stopped holder of {held}"
                report.check(outcome == "done", f"{described}: {outcome}")
                report.check(float(time) < AT_ONCE, f"{described}: {float(time):.2f} s")
    table(["items", "stopped with", *(name for name, _, _ in lines)], rows)


def cell(_, time, outcome):
    return milliseconds(float(time)) + ("" if outcome == "done" else f", {outcome}")
