"""One round: workers on one store, some of which are killed and stopped, and what they saw."""
import os
import random
import signal
import subprocess
import time

import checker

PREFIXES, KEYS = 2, 3
HANGING = 40  # seconds
SHOWN = 5  # errors of a round
ENVIRONMENT = os.environ | {"SWIFT_BACKTRACE": "enable=no"}


class Failure(Exception):
    """The experiment itself did not work."""


class Worker:
    def __init__(self, executable, settings, number):
        self.number, self.folder, self.threads = number, settings["folder"], settings["threads"]
        arguments = [f"{name}={value}" for name, value in (settings | {"worker": number}).items()]
        self.errors = open(self.folder / f"{number}.errors", "w+")
        self.process = subprocess.Popen(
            [executable, "history", "run", *arguments],
            stdin=subprocess.PIPE, stderr=self.errors, env=ENVIRONMENT,
        )
        self.sizes = {}

    def logs(self):
        return [self.folder / f"{self.number}.{thread}" for thread in range(self.threads)]

    def is_hanging(self):
        """Whether one of its threads has written nothing for too long."""
        now = time.monotonic()
        for log in self.logs():
            size = log.stat().st_size if log.exists() else 0
            if self.sizes.get(log, (None, 0))[0] != size:
                self.sizes[log] = (size, now)
            elif now - self.sizes[log][1] > HANGING:
                return True
        return False

    def last_calls(self):
        return "; ".join(log.read_text().rstrip("\n").rpartition("\n")[2] for log in self.logs() if log.exists())

    def send(self, number):
        self.process.send_signal(number)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.process.stdin:
            self.process.stdin.close()
        self.errors.close()


class Round:
    def __init__(self, executable, settings, processes, seed):
        self.executable, self.settings = executable, settings
        self.random = random.Random(seed)
        self.processes, self.started = processes, 0
        self.workers, self.gone = [], []  # worker, and when it was seen to be gone
        self.kills = self.stops = 0
        self.problems = []

    def run(self, seconds):
        """The problems."""
        begin = time.monotonic()
        try:
            self.workers = [self.start() for _ in range(self.processes)]
            self.disturb(begin + seconds)
            self.finish()
            if not self.problems:
                self.look()
            history = self.judge()
        finally:
            for worker in self.workers:
                worker.close()
        self.result = {
            "operations": history.count, "lists": history.lists, "kills": self.kills, "stops": self.stops,
            "unknown": history.unknown, "errors": len(history.unexpected), "violations": self.violations,
            "seconds": time.monotonic() - begin,
        }
        return self.problems

    def start(self):
        self.started += 1
        return Worker(self.executable, self.settings, self.started)

    def disturb(self, deadline):
        while time.monotonic() < deadline and not self.problems:
            time.sleep(self.random.uniform(0.02, 0.2))
            for worker in self.workers:
                if worker.process.poll() is not None:
                    self.ended(worker)
                elif worker.is_hanging():
                    self.problems.append(f"worker {worker.number} hangs: {worker.last_calls()}")
            if self.problems:
                return
            chance = self.random.random()
            if chance < 0.3:
                self.kill(self.random.randrange(len(self.workers)))
            elif chance < 0.7:
                self.stop(self.random.choice(self.workers))

    def ended(self, worker):
        worker.errors.seek(0)
        text = worker.errors.read().strip()
        self.problems.append(f"worker {worker.number} ended, status {worker.process.returncode}: {text[:400]}")

    def kill(self, index):
        worker = self.workers[index]
        if not worker.logs()[0].exists():
            return  # it has done nothing yet
        worker.send(signal.SIGKILL)
        worker.process.wait()
        self.gone.append((worker, time.monotonic_ns()))
        worker.close()
        self.kills += 1
        self.workers[index] = self.start()

    def stop(self, worker):
        worker.send(signal.SIGSTOP)
        time.sleep(min(self.random.expovariate(20), 0.5))
        worker.send(signal.SIGCONT)
        self.stops += 1

    def finish(self):
        for worker in self.workers:
            worker.process.stdin.close()
            worker.process.stdin = None
        for worker in self.workers:
            try:
                worker.process.wait(HANGING)
            except subprocess.TimeoutExpired:
                self.problems.append(f"worker {worker.number} hangs: {worker.last_calls()}")
                worker.send(signal.SIGKILL)
                worker.process.wait()
            if worker.process.returncode > 0:
                self.ended(worker)
            self.gone.append((worker, time.monotonic_ns()))

    def look(self):
        """A new process looks when all is done: an acknowledged write is there, however its writer ended."""
        self.started += 1
        settings = self.settings | {"worker": self.started, "threads": 1}
        arguments = [f"{name}={value}" for name, value in settings.items()]
        for mode in ("look", "findings"):
            result = subprocess.run(
                [self.executable, "history", mode, *arguments], capture_output=True, text=True, env=ENVIRONMENT
            )
            if result.returncode:
                self.problems.append(f"{mode}: status {result.returncode}: {result.stderr.strip()[:400]}")
            elif result.stdout and not self.may_be_locked:
                self.problems.append(f"findings: {result.stdout.strip()[:400]}")

    @property
    def may_be_locked(self):
        return self.settings["mix"] == "passcodes"

    def judge(self):
        keys = [f"history{prefix}/{key}" for prefix in range(PREFIXES) for key in range(KEYS)]
        history = checker.History(keys, self.may_be_locked)
        for worker, gone in self.gone:
            for log in worker.logs():
                if log.exists():
                    history.read(f"{log.name}", log.read_text(), gone)
        look = self.settings["folder"] / f"{self.started}.0"
        if look.exists():
            history.read("look", look.read_text())
        violations = history.check()
        self.violations = len(violations)
        for error in history.unexpected[:SHOWN]:
            self.problems.append(f"unexpected error: {error}")
        if len(history.unexpected) > SHOWN:
            self.problems.append(f"and {len(history.unexpected) - SHOWN} more unexpected errors")
        self.problems += [violation.text() for violation in violations]
        return history
