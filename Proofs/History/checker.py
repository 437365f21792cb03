"""Decides whether recorded calls on a store are linearizable, key by key.

A log is what one thread of a worker did: a line `i TIME CALL` when a call begins, `r TIME RESULT` when it has returned. Between
them `s TIME STATE` says which item a copy or a move has read.
Each call becomes one operation for each key that it concerns (`model.py`), and each key's operations are judged on their own: is
there an order of them, each at one instant between its call and its return, in which every one saw what it saw (`search.py`)?
"""
import collections

from model import *
from search import check_key


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
            elif line[:2] == "s " and pending:
                pending += " saw=" + line.split(" ")[2]
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

    def of_item(self, fields, outcome):
        late = fields[2] == "late"
        state = state_of(outcome[0])
        if state is None:
            self.add(fields[1], see_absent, late)
        else:
            self.add(fields[1], see_item, (state, late))

    of_attributes = of_item

    def of_list(self, fields, outcome):
        self.history.lists += 1
        late = fields[2] == "late"
        found = states_of(outcome)
        for key in self.history.prefixes[fields[1]]:
            state = found.pop(key, None)
            if state is None:
                self.add(key, see_absent, late)
            else:
                self.add(key, see_item, (state, late))
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
                self.add(key, put_keeping_class if fields[1] == "replace" else import_if_absent, state)

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
                self.add(key, take_if_there, moved.pop(key))
            else:
                self.add(key, see_absent, False)
        self.require_none(moved)

    def of_copyObject(self, fields, outcome):
        """Of a move, too: what both do."""
        _, key, new_key, policy, era, *saw = fields
        late = era == "late"
        if outcome[0] == "noSource":
            return self.add(key, see_absent, late)
        item = states_of(saw)["saw"]
        look = self.add(key, see_item, (item, late))
        if outcome[0] == "duplicateItem":
            self.add(new_key, see_other, (item, late))
        elif outcome[0] == "noTarget":
            self.add(new_key, see_absent, late)
        else:
            self.add(new_key, put_copy, (item, late, policy))
        return look

    def of_moveObject(self, fields, outcome):
        if outcome[0] == "conflict":
            return self.conflict(fields)
        look = self.of_copyObject(fields, outcome)
        if outcome[0] == "ok":
            self.add(fields[1], take_exactly, states_of(fields)["saw"], after=look)

    def conflict(self, fields):
        """Of a move in two steps: the item was copied, and is no longer as it was then."""
        self.add(fields[1], see_changed, states_of(fields)["saw"], after=self.of_copyObject(fields, ("ok",)))

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
            replace, add = (put, put_if_absent) if name == "copy" else (put_keeping_class, import_if_absent)
            for key, state in states_of(fields).items():
                self.optional(key, replace if fields[1] == "replace" else add, state)
        elif name == "move":
            for key in keys[fields[1]]:
                self.optional(key, remove, None)
        elif name in ("copyObject", "moveObject"):
            self.unknown_copy(fields)
        elif name == "migrate":
            self.optional(fields[1], write, (state_of(fields[2]), False, "addOnly"))
        elif name == "removePasscode":
            for key in self.history.keys:
                lost = self.optional(key, lose, None)
                self.optional(key, remove_lost, None)

    def unknown_copy(self, fields):
        item = states_of(fields).get("saw")
        if item is None:
            return  # before it has read an item it changes nothing
        self.optional(fields[2], put_copy, (item, fields[4] == "late", fields[3]))
        if fields[0] == "moveObject":
            self.optional(fields[1], take_exactly, item)

    def refused(self, fields, word):
        """Locked, or no passcode, or one: what concerns one item has not happened; the rest may have begun."""
        if fields[0] == "removePasscode" and word == "passcodeNotSet":
            for key in self.history.keys:  # the rest of an interrupted removal goes
                self.optional(key, remove_lost, None)
        elif fields[0] in ("copyObject", "moveObject"):
            self.unknown_copy(fields)
        elif fields[0] in ("import", "copy", "move", "batch", "removeAll", "removeExpired", "removePasscode", "migrate"):
            self.unknown(fields)

    def failed_on_lost(self, fields):
        if fields[0] in ("value", "item", "update", "take", "changeClass"):
            self.add(fields[1], see_lost, None)
        elif fields[0] in ("rotate", "export", "import", "copy", "move", "copyObject", "moveObject", "migrate", "batch"):
            self.unknown(fields)
        else:
            self.history.unexpected.append(f"{self.call[0]} at {self.begin}: {self.call[1]}: {self.call[2]}")
