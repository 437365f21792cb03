"""The effects of a call on an item's state: the steps that the search tries.

A state is None, or (value, class, expires, created, modified): numbers of the calls that these come from. The class `lost`
stands for an item whose key was destroyed with the passcode: its attributes can be read until it is removed, its value only by a
process that had opened the key before.
"""
NEVER = float("inf")
PASSCODE_CLASS, LOST = "akpu", "lost"
PROTECTION = {"dk": 0, "dku": 0, "ck": 1, "cku": 1, "ak": 2, "aku": 2, PASSCODE_CLASS: 3}
DEVICE_ONLY = {"aku", "cku", "dku", PASSCODE_CLASS, LOST}


class Impossible:
    """The result of an operation in a state in which it cannot have happened."""


NO = Impossible()


# Steps: (state before, the operation's own argument) -> state after, or NO.

def is_live(state, late):
    return state is not None and not (late and state[2])


def see_value(state, argument):
    value, late = argument
    return state if state and state[0] == value and not (late and state[2]) else NO


def see_item(state, argument):
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


def put_keeping_class(state, item):
    """An import lowers no class: not that of an expired item, and what was to stay on its device stays."""
    if state is None:
        return item
    old, name = PASSCODE_CLASS if state[1] == LOST else state[1], item[1]
    stays = old in DEVICE_ONLY or name in DEVICE_ONLY
    if PROTECTION[old] > PROTECTION[name]:
        name = old
    return with_class(item, name + "u" if stays and name not in DEVICE_ONLY else name)


def put_if_absent(state, item):
    """An item that is expired today may count as absent, or as there."""
    return item if state is None or state[2] or state == item else NO


def import_if_absent(state, item):
    return put_if_absent(state, put_keeping_class(state, item))


def put_copy(state, argument):
    """A copy has all that the item had, also its first date; an equal one may be there, from an earlier attempt."""
    item, late, policy = argument
    is_there = is_live(state, late) and state != item
    if is_there and policy == "addOnly" or not is_live(state, late) and policy == "updateOnly":
        return NO
    return item


def see_other(state, argument):
    """Something is there that is not the copy."""
    item, late = argument
    return state if is_live(state, late) and state != item else NO


def see_changed(state, item):
    return NO if state == item else state


def take_exactly(state, item):
    return None if state == item else NO


def take_if_there(state, item):
    """An item that was removed after it had been read has moved, too."""
    return None if state is None or state == item else NO


def lose(state, _):
    return with_class(state, LOST) if state is not None and state[1] == PASSCODE_CLASS else state


def remove_lost(state, _):
    return None if state is not None and state[1] == LOST else state


def with_class(state, name):
    return state[0], name, state[2], state[3], state[4]


ANY = object()
LOOKS = {see_value, see_item, see_absent, see_present, see_other, see_changed, see_device_only, see_lost}


class Operation:
    """A call's part for one key."""

    __slots__ = ("begin", "end", "limit", "step", "argument", "is_look", "call", "after", "bit")

    def __init__(self, begin, end, step, argument, call, limit=NEVER, after=None):
        self.begin, self.end, self.limit = begin, end, limit  # `end` is NEVER where the outcome is not known
        self.step, self.argument, self.call, self.after = step, argument, call, after
        self.is_look = step in LOOKS
        self.bit = 0
