"""Kills an operation beside processes that use the same store, some of which rotate its keys."""
import contextlib
import random
import re
import signal
import subprocess
import time

SECONDS = 60  # in which a process must get on after the kill
CONTROL_SECONDS = 5
# Its states are those of one rotation, and a store whose passcode changes is not unlocked by the others.
WITHOUT_ROTATIONS = {"rotateKeys", "setPasscode", "changePasscode", "removePasscode"}
LONGEST = re.compile(r"(\d+) calls, the longest ([\d,]+) ?ms")


class Others:
    """Processes that use the store until they are told to end."""

    def __init__(self, matrix, operation, folder, count):
        self.processes, self.calls, self.longest = [], 0, 0
        for number in range(count):
            rotates = number == count - 1 > 0 and operation not in WITHOUT_ROTATIONS
            self.processes.append(subprocess.Popen(
                [matrix.executable, "kill", "beside", operation, folder, str(number), *(["rotate"] if rotates else [])],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=matrix.environment,
            ))

    def wait_until_ready(self):
        return [f"process {number} beside did not begin: {process.stderr.read().strip()}"
                for number, process in enumerate(self.processes) if process.stdout.readline() != "ready\n"]

    def finish(self, seconds):
        """What was wrong with them."""
        for process in self.processes:
            with contextlib.suppress(BrokenPipeError):  # it has ended already
                process.stdin.close()
            process.stdin = None
        problems, deadline = [], time.monotonic() + seconds
        for number, process in enumerate(self.processes):
            try:
                output, errors = process.communicate(timeout=max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                problems.append(f"process {number} beside hangs")
                continue
            if process.returncode:
                problems.append(f"process {number} beside: status {process.returncode}: {errors.strip()[:500]}")
            elif not (match := LONGEST.search(output)):
                problems.append(f"process {number} beside says {output!r}")
            else:
                self.calls += int(match[1])
                self.longest = max(self.longest, int(match[2].replace(",", "")))
        return problems

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    with contextlib.suppress(BrokenPipeError):
                        stream.close()


class BesideOperation:
    """An operation of the matrix, killed at some of its calls beside others."""

    def __init__(self, operation, count, kills, seed):
        self.operation, self.matrix, self.name = operation, operation.matrix, operation.name
        self.count, self.kills = count, kills
        self.random = random.Random(f"{seed} {self.name}")
        self.problems, self.killed, self.returned, self.calls, self.longest = [], 0, 0, 0, 0

    def run(self):
        start = time.monotonic()
        with self.matrix.copy(self.operation.prepared) as folder:
            reference = self.operation.trace(folder)
        # One of each of as many equal parts of the operation.
        length = len(reference.calls)
        parts = min(self.kills, length)
        numbers = [self.random.randint(1 + length * part // parts, length * (part + 1) // parts)
                   for part in range(parts)]
        for number in numbers:
            self.kill(reference, number)
        self.problems += self.operation.problems
        self.report(length, time.monotonic() - start)

    def kill(self, reference, number):
        name, occurrence = reference.occurrence(number)
        what = f"killed beside {self.count} others at call {number}, {name}"
        with self.matrix.copy(self.operation.prepared) as folder:
            others = Others(self.matrix, self.name, folder, self.count)
            try:
                problems = others.wait_until_ready()
                killed = self.operation.trace(folder, (name, occurrence), is_alone=False)
                problems += others.finish(SECONDS)
            finally:
                others.stop()
            self.problems += [f"{what}: {problem}" for problem in problems]
            # What it waits for differs from run to run: it may have made fewer calls of that name, and have returned.
            if killed.status not in (0, -signal.SIGKILL):
                self.problems.append(f"{what}: status {killed.status}: {killed.errors}")
            self.killed += killed.status == -signal.SIGKILL
            self.returned += killed.is_returned
            self.calls, self.longest = self.calls + others.calls, max(self.longest, others.longest)
            self.operation.check(folder, killed.is_returned, what)

    def report(self, length, seconds):
        found = self.operation.states
        states = ", ".join(f"{found[state]} {state}" for state in ("old", "between", "new") if found[state])
        print(
            f"| {self.name} | {length} | {self.killed} | {self.returned} | {states} | {self.calls} | {self.longest} ms |"
            f" {len(self.problems)} | {seconds:.0f} s |",
            flush=True,
        )
        for problem in self.problems[:10]:
            print(f"VIOLATION: {self.name}: {problem}", flush=True)


HEADER = ("| operation | system calls | kills | had returned | found | calls beside | longest call | violations | time |\n"
          "|---|---|---|---|---|---|---|---|---|")


def controls(matrix, count):
    """Each must be noticed: an item that is gone, and a holder of the lock that is not dead."""
    missed = 0
    for name, disturb, expected in (
        ("items of the others removed", remove_items, "not as it was|are listed"),
        ("a live process keeps the lock", hold_lock, "hangs"),
    ):
        folder = matrix.new_folder()
        matrix.lockbox("prepare", "replace", folder)
        with contextlib.ExitStack() as stack:
            others = Others(matrix, "replace", folder, count)
            stack.callback(others.stop)
            problems = others.wait_until_ready()
            disturb(matrix, folder, stack)
            problems += others.finish(CONTROL_SECONDS)
        is_caught = any(re.search(expected, problem) for problem in problems)
        missed += not is_caught
        print(f"control, {name}: {'caught' if is_caught else f'MISSED: {problems}'}", flush=True)
    return missed


def remove_items(matrix, folder, stack):
    for _ in range(20):
        matrix.lockbox("spoil-beside", folder)


def hold_lock(matrix, folder, stack):
    process = subprocess.Popen(
        [matrix.executable, "hold", folder / "store", "key"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=matrix.environment,
    )
    stack.callback(process.wait)
    stack.callback(process.kill)
    process.stdout.readline()
