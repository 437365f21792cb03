"""The search for an order of one key's operations in which each saw what it saw.

It is Lowe's: the events of a key are gone through in the order of time, with the set of all configurations that are possible
so far. A configuration is the key's state, and which of the pending operations have taken effect. An operation has to take
effect before it returns: only then are orders of the pending ones tried. A mere look takes effect at the first state that
it fits, since it changes nothing. An operation whose outcome is unknown may take effect at any time until its process was seen
to be gone, or never.
"""
from model import ANY, NEVER, NO

BEGIN, END, LIMIT = 0, 1, 2


def events(operations):
    """In the order of time; at one instant, calls before returns, so that neither is held to precede the other."""
    found = []
    for operation in operations:
        found.append((operation.begin, BEGIN, id(operation), operation))
        if operation.end != NEVER:
            found.append((operation.end, END, id(operation), operation))
        elif operation.limit != NEVER:
            found.append((operation.limit, LIMIT, id(operation), operation))
    found.sort(key=lambda event: event[:2])
    return found


class Search:
    def __init__(self, states=(None,)):
        self.configurations = {(state, 0) for state in states}
        self.pending = {}  # bit -> operation
        self.looks = {}
        self.changes = {}
        self.used = 0
        self.failed = None

    def copy(self):
        copy = Search()
        copy.configurations, copy.used = set(self.configurations), self.used
        copy.pending, copy.looks, copy.changes = dict(self.pending), dict(self.looks), dict(self.changes)
        return copy

    def run(self, events):
        """False if no order explains them: `failed` is the first call that cannot have happened."""
        begin, end, limit = self.begin, self.end, self.limit
        for _, kind, _, operation in events:
            if kind == BEGIN:
                begin(operation)
            elif kind == LIMIT:
                limit(operation)
            elif not end(operation):
                self.failed = operation
                return False
        return True

    def begin(self, operation):
        bit = ~self.used & (self.used + 1)
        self.used |= bit
        operation.bit = bit
        self.pending[bit] = operation
        if operation.is_look:
            self.looks[bit] = operation
            step, argument = operation.step, operation.argument
            self.configurations = {
                (state, mask if step(state, argument) is NO else mask | bit) for state, mask in self.configurations
            }
        else:
            self.changes[bit] = operation

    def forget(self, operation):
        bit = operation.bit
        del self.pending[bit]
        (self.looks if operation.is_look else self.changes).pop(bit)
        self.used ^= bit

    def leave_out(self, look):
        """Removes every trace of it."""
        self.configurations = {(state, mask & ~look.bit) for state, mask in self.configurations}
        self.forget(look)

    def limit(self, operation):
        """It has happened by now, or it never will."""
        undone = {(state, mask) for state, mask in self.configurations if not mask & operation.bit}
        self.configurations = undone | self.effects(operation)
        self.forget(operation)

    def end(self, operation):
        """False if it cannot have happened."""
        found = self.effects(operation)
        self.forget(operation)
        if found:
            self.configurations = found
        return bool(found)

    def effects(self, operation):
        """The configurations after it has happened."""
        bit = operation.bit
        found = set()
        for state, mask in self.configurations:
            if mask & bit:
                found.add((state, mask ^ bit))
            else:
                self.explore(state, mask, bit, found)
        return found

    def explore(self, state, mask, wanted, found):
        """Adds every configuration in which the wanted operation is the last that took effect."""
        changes, looks = self.changes, self.looks
        stack, seen = [(state, mask)], {(state, mask)}
        while stack:
            state, mask = stack.pop()
            for bit, operation in changes.items():
                if mask & bit:
                    continue
                after = operation.after
                if after is not None and after.bit in changes and changes[after.bit] is after and not mask & after.bit:
                    continue
                new = operation.step(state, operation.argument)
                if new is NO:
                    continue
                new_mask = mask | bit
                for look_bit, look in looks.items():
                    if not new_mask & look_bit and look.step(new, look.argument) is not NO:
                        new_mask |= look_bit
                if new_mask & wanted:
                    found.add((new, new_mask ^ wanted))
                elif (new, new_mask) not in seen:
                    seen.add((new, new_mask))
                    stack.append((new, new_mask))

    def states(self):
        return {state for state, _ in self.configurations}


def check_key(key, operations):
    """The first violation, or None."""
    search = Search()
    if search.run(events(operations)):
        return None
    return explain(key, operations, search.failed)


def explain(key, operations, failed):
    """The violation, from the beginning of the call that cannot have happened."""
    start = Search()
    start.run(event for event in events(operations) if event[0] < failed.begin)
    window = [*start.pending.values()]
    window += [operation for operation in operations if failed.begin <= operation.begin <= failed.end]
    for size in (64, 16, 4, 1):  # mere looks are left out, as long as the rest is impossible still
        looks = [operation for operation in window if operation.is_look and operation is not failed]
        for first in range(0, len(looks), size):
            left_out = set(map(id, looks[first:first + size]))
            rest = [operation for operation in window if id(operation) not in left_out]
            if not is_possible(start, rest, failed):
                window = rest
    return Violation(key, start.states(), window, failed)


def is_possible(start, window, failed):
    search = start.copy()
    chosen = set(map(id, window))
    for operation in start.pending.values():
        if id(operation) not in chosen:
            search.leave_out(operation)
    return search.run(event for event in events(window)
                      if failed.begin <= event[0] <= failed.end
                      and (event[1] or event[3].begin >= failed.begin))


class Violation:
    def __init__(self, key, states, operations, failed):
        self.key, self.states, self.operations, self.failed = key, states, operations, failed

    def text(self, shown=30):
        first = self.failed.begin
        states = ", or ".join(sorted(map(describe, self.states)))
        lines = [f"{self.key}: the last of these calls cannot have seen this. When it began the item was {states}"]
        others = [operation for operation in self.operations if operation is not self.failed]
        rows = [self.row(operation, first) for operation in sorted(others, key=lambda one: one.begin)]
        if len(rows) > shown:
            rows[5:5 - shown] = [f"    … {len(rows) - shown} more"]
        return "\n".join([*lines, *rows, self.row(self.failed, first)])

    @staticmethod
    def row(operation, first):
        def milliseconds(time):
            return f"{(time - first) / 1e6:9.3f}"

        if operation.end == NEVER:
            end = "  unknown"
        else:
            end = milliseconds(operation.end)
        thread, call, result = operation.call
        return f"    {milliseconds(operation.begin)} to {end} ms  {thread:8} {call}  ->  {shorten(result)}"


def shorten(text, limit=200):
    return text if len(text) <= limit else text[:limit] + "…"


def describe(state):
    return "absent" if state is None else ",".join(map(str, state))
