"""Decides whether recorded calls on a store are linearizable, key by key.

A log is what one thread of a worker did: a line `i TIME CALL` when a call begins, `r TIME RESULT` when it has returned.
Each call becomes one operation for each key that it concerns, and each key's operations are judged on their own: is there
an order of them, each at one instant between its call and its return, in which every one saw what it saw?

The search is Lowe's: the events of a key are gone through in the order of time, with the set of all configurations that
are possible so far. A configuration is the key's state, and which of the pending operations have taken effect. An operation
has to take effect before it returns: only then are orders of the pending ones tried. What only looks takes effect at the
first state that it fits, since it changes nothing. An operation whose outcome is unknown may take effect at any time until
its process was seen to be gone, or never.

A state is None, or (value, class, expires, created, modified): numbers of the calls that these come from. The class `lost`
stands for an item whose key was destroyed with the passcode: its attributes can be read, its value cannot.
"""
import collections

NEVER = float("inf")
PASSCODE_CLASS, LOST = "akpu", "lost"
DEVICE_ONLY = {"aku", "cku", "dku", PASSCODE_CLASS, LOST}


class Impossible:
    """What an operation makes of a state in which it cannot have happened."""


NO = Impossible()


# Steps: (state before, the operation's own argument) -> state after, or NO.

def is_live(state, late):
    return state is not None and not (late and state[2])


def see_value(state, argument):
    value, late = argument
    return state if state and state[0] == value and not (late and state[2]) and state[1] != LOST else NO


def see_item(state, argument):
    expected, late = argument
    return state if state == expected and not (late and state[2]) else NO


def see_attributes(state, argument):
    expected, late = argument
    if state is None or late and state[2]:
        return NO
    if state == expected or state[1] == LOST and with_class(state, PASSCODE_CLASS) == expected:
        return state
    return NO


def see_absent(state, late):
    return state if state is None or late and state[2] else NO


def see_present(state, late):
    return NO if state is None or late and state[2] else state


def see_device_only(state, _):
    return state if state is not None and state[1] in DEVICE_ONLY else NO


def see_lost(state, _):
    return state if state is not None and state[1] == LOST else NO


def write(state, argument):
    new, late, policy = argument
    if state is None or late and state[2]:
        return NO if policy == "updateOnly" else new
    return NO if policy == "addOnly" else (new[0], new[1], new[2], state[3], new[4])


def update(state, argument):
    """`seen` is ANY where the call did not return."""
    new, late, seen = argument
    old = None if state is None or late and state[2] else state
    if seen is not ANY and old != seen:
        return NO
    return new if old is None else (new[0], new[1], old[2], old[3], new[4])


def take(state, argument):
    late, seen = argument
    old = None if state is None or late and state[2] else state
    return None if seen is ANY or old == seen else NO


def change_class(state, argument):
    name, call, late = argument
    if state is None or late and state[2] or state[1] == LOST:
        return NO
    return state[0], name, state[2], state[3], call


def remove(state, _):
    return None


def remove_expired(state, late):
    return None if state is not None and late and state[2] else state


def put(state, item):
    return item


def put_if_absent(state, item):
    """An item that is expired today may count as absent, or as there."""
    return item if state is None or state[2] or state == item else NO


def take_exactly(state, item):
    return None if state is None or state == item else NO


def lose(state, _):
    return with_class(state, LOST) if state is not None and state[1] == PASSCODE_CLASS else state


def remove_lost(state, _):
    return None if state is not None and state[1] == LOST else state


def with_class(state, name):
    return state[0], name, state[2], state[3], state[4]


ANY = object()
LOOKS = {see_value, see_item, see_attributes, see_absent, see_present, see_device_only, see_lost}


class Operation:
    """What a call is to one key."""

    __slots__ = ("begin", "end", "limit", "step", "argument", "is_look", "call", "after", "bit")

    def __init__(self, begin, end, step, argument, call, limit=NEVER, after=None):
        self.begin, self.end, self.limit = begin, end, limit  # `end` is NEVER where the outcome is not known
        self.step, self.argument, self.call, self.after = step, argument, call, after
        self.is_look = step in LOOKS
        self.bit = 0


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


class History:
    """Reads logs, and judges what they say."""

    def __init__(self, keys, may_be_locked=False):
        self.keys = keys
        self.may_be_locked = may_be_locked
        self.operations = {key: [] for key in keys}
        self.prefixes = collections.defaultdict(list)
        for key in keys:
            self.prefixes[key.split("/")[0]].append(key)
        self.count = self.lists = self.unknown = 0
        self.unexpected = []
        self.calls = collections.Counter()

    # Reading

    def read(self, thread, text, gone=NEVER):
        """One thread's log.

        `gone` is when its process was seen to be gone: a call without a return takes effect before, or never.
        """
        pending = None
        for line in text.split("\n"):
            if line[:2] == "i ":
                pending = line
            elif line[:2] == "r " and pending:
                self.add(thread, pending, line, gone)
                pending = None
        if pending and pending.count(" ") >= 2:  # cut short, it was never made
            self.add(thread, pending, None, gone)

    def add(self, thread, invocation, response, gone):
        _, begin, call = invocation.split(" ", 2)
        fields = call.split(" ")
        if response is None:
            end, result = NEVER, "unknown"
            self.unknown += 1
        else:
            _, end, result = response.split(" ", 2)
            end = int(end)
        self.count += 1
        self.calls[fields[0]] += 1
        entry = Entry(self, int(begin), end, gone, (thread, call, result))
        outcome = result.split(" ")
        word = outcome[0]
        if word == "error" and outcome[1] in ("corrupt", "authenticationFailed", "unreadable") and self.may_be_locked:
            entry.failed_on_lost(fields)
        elif word == "error":
            self.unexpected.append(f"{thread} at {begin}: {call}: {result[6:]}")
            entry.unknown(fields)
        elif word in ("interactionNotAllowed", "wrongPasscode", "passcodeNotSet", "passcodeAlreadySet"):
            if not self.may_be_locked:
                self.unexpected.append(f"{thread} at {begin}: {call}: {result}")
            entry.refused(fields, word)
        elif word == "unknown":
            entry.unknown(fields)
        else:
            getattr(entry, "of_" + fields[0], entry.of_store)(fields, outcome)

    # Judging

    def check(self):
        """The first violation of each key."""
        found = (check_key(key, operations) for key, operations in self.operations.items())
        return [violation for violation in found if violation]


def state_of(text):
    if text == "absent":
        return None
    value, name, expires, created, modified = text.split(",")
    return int(value), name, int(expires), int(created), int(modified)


def states_of(fields):
    """`KEY=STATE` each."""
    pairs = (field.split("=") for field in fields if "=" in field)
    return {key: state_of(text) for key, text in pairs}


class Entry:
    """One call: adds the operations that it stands for."""

    __slots__ = ("history", "begin", "end", "gone", "call")

    def __init__(self, history, begin, end, gone, call):
        self.history, self.begin, self.end, self.gone, self.call = history, begin, end, gone, call

    def add(self, key, step, argument, after=None):
        operation = Operation(self.begin, self.end, step, argument, self.call, self.gone, after)
        self.history.operations[key].append(operation)
        return operation

    # Calls that returned

    def of_value(self, fields, outcome):
        late = fields[2] == "late"
        if outcome[0] == "absent":
            self.add(fields[1], see_absent, late)
        else:
            self.add(fields[1], see_value, (int(outcome[0]), late))

    def of_item(self, fields, outcome, step=see_item):
        late = fields[2] == "late"
        state = state_of(outcome[0])
        if state is None:
            self.add(fields[1], see_absent, late)
        else:
            self.add(fields[1], step, (state, late))

    def of_attributes(self, fields, outcome):
        self.of_item(fields, outcome, see_attributes)

    def of_list(self, fields, outcome):
        self.history.lists += 1
        late = fields[2] == "late"
        found = states_of(outcome)
        for key in self.history.prefixes[fields[1]]:
            state = found.pop(key, None)
            if state is None:
                self.add(key, see_absent, late)
            else:
                self.add(key, see_attributes, (state, late))
        self.require_none(found)

    def of_prefixes(self, fields, outcome):
        for prefix, keys in self.history.prefixes.items():
            if prefix not in outcome:
                for key in keys:
                    self.add(key, see_absent, False)

    def of_write(self, fields, outcome):
        late = fields[4] == "late"
        if outcome[0] == "ok":
            self.add(fields[1], write, (state_of(fields[3]), late, fields[2]))
        else:
            self.of_refusal(fields[1], outcome[0], late)

    def of_refusal(self, key, word, late):
        self.add(key, see_present if word == "duplicateItem" else see_absent, late)

    def of_update(self, fields, outcome):
        self.add(fields[1], update, (state_of(fields[2]), fields[3] == "late", state_of(outcome[1])))

    def of_take(self, fields, outcome):
        self.add(fields[1], take, (fields[2] == "late", state_of(outcome[1])))

    def of_remove(self, fields, outcome):
        self.add(fields[1], remove, None)

    def of_batch(self, fields, outcome):
        for key, step, argument in self.batched(fields):
            self.add(key, step, argument)

    @staticmethod
    def batched(fields):
        for key, state in states_of(fields).items():
            if state is None:
                yield key, remove, None
            else:
                yield key, write, (state, fields[2] == "late", "replace")

    def of_changeClass(self, fields, outcome):
        late = fields[4] == "late"
        if outcome[0] == "ok":
            self.add(fields[1], change_class, (fields[2], int(fields[3]), late))
        else:
            self.of_refusal(fields[1], outcome[0], late)

    def of_removeAll(self, fields, outcome):
        for key in self.history.prefixes[fields[1]]:
            self.add(key, remove, None)

    def of_removeExpired(self, fields, outcome):
        for key in self.history.prefixes[fields[1]]:
            self.add(key, remove_expired, fields[2] == "late")

    def of_export(self, fields, outcome):
        found = states_of(outcome)
        for key in self.history.keys:
            if "-" + key in outcome:
                self.add(key, see_device_only, None)
            elif key in found:
                self.add(key, see_item, (found.pop(key), False))
            else:
                self.add(key, see_absent, False)
        self.require_none(found)

    def of_import(self, fields, outcome):
        if outcome[0] != "ok":  # it was to fail where there is something, and may have begun
            return self.unknown(fields)
        for key, state in states_of(fields).items():
            if "-" + key in outcome:
                self.add(key, see_present, False)
            else:
                self.add(key, put if fields[1] == "replace" else put_if_absent, state)

    def of_copy(self, fields, outcome):
        for key, state in states_of(fields).items():
            step = put if fields[1] == "replace" else put_if_absent
            if "-" + key in outcome:
                self.add(key, see_present, False)
            elif "!" + key in outcome:  # not written, or something else there when it was looked at again
                self.optional(key, step, state)
            else:
                self.add(key, step, state)

    def of_move(self, fields, outcome):
        moved = states_of(outcome)
        for key in self.history.prefixes[fields[1]]:
            if "!" + key in outcome:  # it has changed meanwhile, and is still there
                self.add(key, see_present, False)
            elif key in moved:
                self.add(key, take_exactly, moved.pop(key))
            else:
                self.add(key, see_absent, False)
        self.require_none(moved)

    def of_migrate(self, fields, outcome):
        if outcome[0] == "taken":
            self.add(fields[1], see_present, False)
        elif outcome[0] != "refused":  # also where it was overwritten before it was looked at again
            self.add(fields[1], write, (state_of(fields[2]), False, "addOnly"))

    def of_removePasscode(self, fields, outcome):
        for key in self.history.keys:
            lost = self.add(key, lose, None)
            self.add(key, remove_lost, None, after=lost)

    def of_store(self, fields, outcome):
        """It changes no item."""

    def require_none(self, found):
        for key in found:
            self.history.unexpected.append(f"{self.call[0]} at {self.begin}: {self.call[1]}: an unknown key {key}")

    # Calls that did not return, or failed

    def optional(self, key, step, argument, after=None):
        """May take effect until the call returned, or its process was gone; or never."""
        limit = self.gone if self.end == NEVER else self.end
        operation = Operation(self.begin, NEVER, step, argument, self.call, limit, after)
        self.history.operations[key].append(operation)
        return operation

    def unknown(self, fields):
        name, keys = fields[0], self.history.prefixes
        if name == "write":
            self.optional(fields[1], write, (state_of(fields[3]), fields[4] == "late", fields[2]))
        elif name == "update":
            self.optional(fields[1], update, (state_of(fields[2]), fields[3] == "late", ANY))
        elif name == "take":
            self.optional(fields[1], take, (fields[2] == "late", ANY))
        elif name == "remove":
            self.optional(fields[1], remove, None)
        elif name == "batch":
            for key, step, argument in self.batched(fields):
                self.optional(key, step, argument)
        elif name == "changeClass":
            self.optional(fields[1], change_class, (fields[2], int(fields[3]), fields[4] == "late"))
        elif name == "removeAll":
            for key in keys[fields[1]]:
                self.optional(key, remove, None)
        elif name == "removeExpired":
            for key in keys[fields[1]]:
                self.optional(key, remove_expired, fields[2] == "late")
        elif name in ("import", "copy"):
            for key, state in states_of(fields).items():
                self.optional(key, put if fields[1] == "replace" else put_if_absent, state)
        elif name == "move":
            for key in keys[fields[1]]:
                self.optional(key, remove, None)
        elif name == "migrate":
            self.optional(fields[1], write, (state_of(fields[2]), False, "addOnly"))
        elif name == "removePasscode":
            for key in self.history.keys:
                lost = self.optional(key, lose, None)
                self.optional(key, remove_lost, None)

    def refused(self, fields, word):
        """Locked, or no passcode, or one: what concerns one item has not happened; the rest may have begun."""
        if fields[0] == "removePasscode" and word == "passcodeNotSet":
            for key in self.history.keys:  # what an interrupted removal has left goes
                self.optional(key, remove_lost, None)
        elif fields[0] in ("import", "copy", "move", "batch", "removeAll", "removeExpired", "removePasscode", "migrate"):
            self.unknown(fields)

    def failed_on_lost(self, fields):
        if fields[0] in ("value", "item", "update", "take", "changeClass"):
            self.add(fields[1], see_lost, None)
        elif fields[0] in ("rotate", "export", "import", "copy", "move", "migrate", "batch"):
            self.unknown(fields)
        else:
            self.history.unexpected.append(f"{self.call[0]} at {self.begin}: {self.call[1]}: {self.call[2]}")


# The search

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
        """As if it had not been."""
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
    for size in (64, 16, 4, 1):  # what only looks is left out, as long as the rest is impossible still
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
