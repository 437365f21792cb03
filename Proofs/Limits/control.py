"""Plants what the bounds are there for, and sees that each of them notices."""
import argparse
import contextlib
import io
import time
from unittest import mock

from common import PREFIX, Report, Times, begin, expect, finish, table
import fairness
import memory


class Controls:
    def __init__(self, machine, options, report):
        self.machine, self.report, self.rows = machine, report, []
        self.small = argparse.Namespace(folder=options.folder, items=2000, command=None)
        self.folder = machine.folder(options.folder)
        self.store = f"{self.folder}/store"
        machine.fill(self.store, PREFIX, 1)

    def expect(self, planted, body, *expected):
        """Each of the texts must be in a failure that `body` reports."""
        found = Report()
        with contextlib.redirect_stdout(io.StringIO()):
            body(found)
        missed = [text for text in expected if not any(text in failure for failure in found.failures)]
        self.rows.append([planted, f"{len(expected) - len(missed)} of {len(expected)}"])
        self.report.check(not missed, f"control: {planted}: not noticed: {missed}")

    @contextlib.contextmanager
    def writers(self, found, seconds=5, limit=30):
        """Eight writers, on whom something is done meanwhile."""
        # With fsync 1 ms slower there are so few calls that those that wait are more than a thousandth of them.
        arguments = ["write", self.store, PREFIX, seconds, 1, "one", fairness.EACH, 1, limit]
        started = [self.machine.limits(*arguments) for _ in range(8)]
        begin(started)
        yield started
        times = Times(started)
        fairness.check("control", times, found)
        fairness.check_failures("control", times, found)

    def hold(self, seconds):
        holder = self.machine.limits("hold", self.store, PREFIX)
        expect(holder, "held")
        time.sleep(seconds)
        finish(holder, close=True)

    def held(self, found):
        with self.writers(found, limit=1):
            self.hold(2.5)

    def held_in_turns(self, found):
        with self.writers(found):
            for _ in range(4):
                self.hold(0.8)

    def ends_early(self, found):
        with self.writers(found) as started:
            time.sleep(0.5)
            started[0].stdin.close()

    def no_memory(self, found):
        nothing = dict.fromkeys(memory.BOUNDS, 0)
        with mock.patch.multiple(memory, FEW=nothing, BOUNDS=nothing):
            memory.run(self.machine, self.small, found)


def run(machine, options, report):
    controls = Controls(machine, options, report)
    controls.expect("the lock is held for 2.5 s, time limit 1 s", controls.held, "the worst wait is", "calls failed")
    controls.expect("the lock is held for 0.8 s, four times", controls.held_in_turns, "times the median")
    controls.expect("one writer of eight ends early", controls.ends_early, "one writer got")
    operations = [*memory.IN_PROCESS, "removeAll"]
    controls.expect("no memory is allowed", controls.no_memory, *(f"{name}: " for name in operations))
    table(["planted", "noticed"], controls.rows)
    machine.remove(controls.folder)
