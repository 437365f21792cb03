"""A round of Proofs/History on a store in a cluster, while something happens to the cluster."""
import collections
import pathlib
import threading
import time

import checker
import rounds
from faults import FAULTS, SETTINGS
from model import see_absent, see_item, see_value
from ordering import is_look, states_of, step_of
from outcomes import Outcomes

LIMITS = [1000, 3000]  # milliseconds that a call may take
PATIENT = 20_000
KILLED = 0.15  # of the kills that a round of Proofs/History would make
KINDS = ["lost or stale", "came back", "nobody's", "torn", "wrong nil", "other"]


class Round(rounds.Round):
    def __init__(self, executable, settings, processes, seed, cluster, name):
        others = {"mix": "cluster", "keys": rounds.KEYS} | SETTINGS.get(name, {})
        self.limits = others.pop("limits", LIMITS)
        super().__init__(executable, settings | others, processes, seed)
        self.cluster, self.fault = cluster, FAULTS[name]
        self.store = settings["engine"]
        self.faults, self.deaths = 0, []
        self.kinds = collections.Counter()

    def engine(self, limit, shift=0):
        endpoints = self.cluster.endpoints[shift:] + self.cluster.endpoints[:shift]
        return {"engine": f"{self.store}:{limit}:{','.join(endpoints)}"}

    def start(self):
        """Each process begins at another member. Some wait for less than an election takes."""
        shift = self.started % len(self.cluster.members)
        self.settings = self.settings | self.engine(self.limits[self.started % 2], shift)
        return super().start()

    def look(self):
        self.settings = self.settings | self.engine(PATIENT)
        super().look()

    def disturb(self, deadline):
        """Workers are killed and stopped all the time."""
        disturbing = threading.Thread(target=self.disturb_workers, args=(deadline,))
        disturbing.start()
        try:
            while not self.problems and (not self.faults or time.monotonic() < deadline):
                time.sleep(1)  # for calls in a whole cluster
                self.fault(self.cluster, self.random, self.deaths)
                self.faults += 1
                self.cluster.wait()
            time.sleep(1)
        finally:
            disturbing.join()

    def disturb_workers(self, deadline):
        try:
            super().disturb(deadline)
        except Exception as error:  # it would end this thread only
            self.problems.append(f"the experiment failed: {error!r}")

    def kill(self, index):
        """More rarely than on files: what was under way then can take effect until the end of the round."""
        if self.random.random() < KILLED:
            super().kill(index)

    def judge(self):
        keys = [f"history{prefix}/{key}" for prefix in range(rounds.PREFIXES) for key in range(self.settings["keys"])]
        history = checker.History(keys)
        self.outcomes = Outcomes(history)
        for worker, _ in self.gone:
            logs = {log.name: log.read_text() for log in worker.logs() if log.exists()}
            is_shared = self.settings["backends"] == "shared"
            for part in [logs] if is_shared else [{name: text} for name, text in logs.items()]:
                self.outcomes.read(part)
        look = pathlib.Path(self.settings["folder"]) / f"{self.started}.0"
        if look.exists():
            history.read("look", look.read_text())  # nothing may fail any more
        self.outcomes.order()
        self.name_problems(history)
        return history

    def name_problems(self, history):
        violations = history.check()
        self.violations = len(violations)
        for violation in violations:
            self.kinds[kind_of(violation, history)] += 1
            violation.states = states_of(violation)
        torn = [error for error in history.unexpected if ": violation " in error]
        self.kinds["torn"] += len(torn)
        self.problems += [f"unexpected error: {error}" for error in history.unexpected[:rounds.SHOWN]]
        if len(history.unexpected) > rounds.SHOWN:
            self.problems.append(f"and {len(history.unexpected) - rounds.SHOWN} more unexpected errors")
        self.problems += [violation.text() for violation in violations]


def kind_of(violation, history):
    """The kind of the first call that cannot have happened."""
    step, argument = step_of(violation.failed), violation.failed.argument
    if step is see_absent:
        return "wrong nil"
    if step not in (see_value, see_item):
        return "other"
    value = argument[0] if step is see_value else argument[0][0]
    if value not in written(history.operations[violation.key]):
        return "nobody's"
    return "came back" if states_of(violation) == {None} else "lost or stale"


def written(operations):
    """The values of all calls that may have changed a key."""
    found = set()
    for operation in operations:
        argument = operation.argument
        if not is_look(operation) and isinstance(argument, tuple):
            state = argument[0] if isinstance(argument[0], tuple) else argument
            found.add(state[0])
    return found
