"""Reads workers' logs for a storage that cannot be reached at times, and hands them to the checker of Proofs/History.

A call that says that its outcome is not known may take effect later, but not after the next call of the same storage that
succeeds, as `EtcdStorage` promises. It is given to the checker like one of a process that was killed when that call had
returned, and in addition it must precede that call (`ordering.py`). A call that was under way when its process was killed
may take effect at any time. "Not reachable" must mean that nothing was changed: a call on one key that says so is left out.
"""
import bisect
import collections

import ordering
from model import NEVER

READS = {"value", "item", "attributes", "list", "prefixes"}
# Of one key. An error of these that is not "outcome not known" says that nothing was changed.
WRITES = {"write", "update", "take", "changeClass"}
# Each asks the cluster at least once.
ASKING = READS | WRITES | {"remove"}
NOT_KNOWN, NOT_REACHABLE = "outcomeUnknown", "notReachable"


class Call:
    def __init__(self, line):
        _, begin, self.text = line.split(" ", 2)
        self.name = self.text.partition(" ")[0]
        self.begin, self.end, self.lines, self.result = int(begin), None, [line], None

    def add(self, line):
        self.lines.append(line)
        if line[0] == "r":
            _, end, result = line.split(" ", 2)
            self.end, self.result = int(end), result.split(" ")

    @property
    def error(self):
        return self.result[1] if self.result and self.result[0] == "error" else None

    @property
    def is_sure(self):
        return self.result is not None and self.error is None and self.name in ASKING


def calls_of(text):
    calls = []
    for line in text.split("\n"):
        if line[:2] == "i " and line.count(" ") >= 2:
            calls.append(Call(line))
        elif line[:2] in ("r ", "s ") and line.count(" ") >= 2 and calls:
            calls[-1].add(line)
    return calls


class Outcomes:
    """Of one round."""

    def __init__(self, history):
        self.history = history
        self.unknown = self.expected = self.removals = 0
        self.orders = []  # threads and beginnings of two calls, of which the first comes before the second, or never
        self.writes = []  # begin and end of each that succeeded

    def read(self, logs):
        """The logs of all threads that share one storage: names and texts."""
        logs = {name: calls_of(text) for name, text in logs.items()}
        sure = sorted(((call.begin, call.end, name) for name, calls in logs.items() for call in calls if call.is_sure))
        begins = [begin for begin, _, _ in sure]
        for index in range(len(sure) - 2, -1, -1):  # of all that began at this one or later, the first to return
            sure[index] = min(sure[index], sure[index + 1], key=lambda one: one[1])

        def settling(call):
            """When a call after this one began, when it returned, and its thread."""
            index = bisect.bisect_right(begins, call.end)
            return sure[index] if index < len(sure) else (NEVER, NEVER, None)

        for name, calls in logs.items():
            self.read_thread(name, calls, settling)

    def read_thread(self, name, calls, settling):
        lines, doubtful = [], None
        for call in calls:
            doubtful = self.count_removal(call, doubtful)
            if call.error not in (NOT_KNOWN, NOT_REACHABLE):
                lines += call.lines
                if call.is_sure and call.name not in READS:
                    self.writes.append((call.begin, call.end))
            elif call.error == NOT_KNOWN or call.name not in READS | WRITES:
                self.unknown += call.error == NOT_KNOWN
                self.expected += call.error == NOT_REACHABLE
                begin, end, thread = settling(call)
                self.orders.append(((name, call.begin), (thread, begin)))
                self.give(name, [*lines, *call.lines[:-1]], end)
                lines = []
            else:
                self.expected += 1
        self.give(name, lines, NEVER)

    def order(self):
        """To be called when all has been read."""
        for operations in self.history.operations.values():
            calls = collections.defaultdict(list)
            for operation in operations:
                calls[operation.call[0], operation.begin].append(operation)
            pairs = [(one, other) for first, second in self.orders for one in calls.get(first, ())
                     for other in calls.get(second, ())]
            if pairs:
                ordering.require(pairs, operations)

    def count_removal(self, call, doubtful):
        """The key of a write whose outcome is not known, and which is removed until that succeeds."""
        key = call.text.partition(" ")[2].partition(" ")[0]
        if call.name == "write" and call.error == NOT_KNOWN:
            return key
        if call.name != "remove" or key != doubtful:
            return None
        self.removals += call.is_sure
        return None if call.is_sure else doubtful

    def give(self, name, lines, gone):
        self.history.read(name, "\n".join(lines), gone)

    # Service

    def longest_gap(self):
        """The longest time in which no write of any process succeeded, in seconds."""
        ends = sorted(end for _, end in self.writes)
        return max((two - one for one, two in zip(ends, ends[1:])), default=0) / 1e9

    def gap_after(self, instant):
        """From an instant to the return of the first write that began after it and succeeded, in seconds."""
        return min((end - instant for begin, end in self.writes if begin > instant), default=NEVER) / 1e9
