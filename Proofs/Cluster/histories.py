"""Logs made by hand, and what must become of them: whether an order explains them, and what the violation is called."""
import checker
from outcomes import Outcomes
from workload import kind_of

A, B = "1,dk,0,1,1", "2,dk,0,2,2"
WRITE = f"write p/0 replace {A} early"
READ = "value p/0 early"
NOT_KNOWN, NOT_REACHABLE = "error outcomeUnknown it did not say", "error notReachable it is away"
# A name, the kind of violation or None, whether the threads share a storage, and the calls: the thread, when it begins and
# returns (None: it was killed), the call, and what it came to.
HISTORIES = [
    ("a write not known that took effect", None, False, [
        ("one", 0, 10, WRITE, NOT_KNOWN), ("one", 20, 30, READ, "1")]),
    ("a write not known that did not", None, False, [
        ("one", 0, 10, WRITE, NOT_KNOWN), ("one", 20, 30, READ, "absent"), ("two", 40, 50, READ, "absent")]),
    ("a write not known that is seen, and removed", None, False, [
        ("one", 0, 10, WRITE, NOT_KNOWN), ("two", 20, 25, READ, "1"), ("one", 20, 30, "remove p/0", "ok"),
        ("two", 40, 50, READ, "absent")]),
    ("a write not known that is seen while it is removed", None, False, [
        ("one", 0, 10, WRITE, NOT_KNOWN), ("two", 12, 16, READ, "absent"), ("one", 15, 30, "remove p/0", "ok"),
        ("two", 20, 25, READ, "1"), ("two", 40, 50, READ, "absent")]),
    ("a write not known that comes back after a removal", "came back", False, [
        ("one", 0, 10, WRITE, NOT_KNOWN), ("one", 20, 30, "remove p/0", "ok"), ("two", 40, 50, READ, "1")]),
    ("a write not known that takes effect after the next call", "came back", False, [
        ("one", 0, 10, WRITE, NOT_KNOWN), ("one", 20, 30, READ, "absent"), ("two", 40, 50, READ, "1")]),
    ("a write not known that takes effect while the next call fails", None, False, [
        ("one", 0, 10, WRITE, NOT_KNOWN), ("one", 20, 30, READ, NOT_REACHABLE), ("two", 25, 28, READ, "absent"),
        ("two", 40, 50, READ, "1")]),
    ("a write not known after a call of another storage", None, False, [
        ("one", 0, 10, WRITE, NOT_KNOWN), ("two", 20, 30, READ, "absent"), ("two", 40, 50, READ, "1")]),
    ("a write not known after a call of the same storage", "came back", True, [
        ("one", 0, 10, WRITE, NOT_KNOWN), ("two", 20, 30, READ, "absent"), ("two", 40, 50, READ, "1")]),
    ("a removal not known that takes effect twice", "wrong nil", False, [
        ("one", 0, 10, WRITE, "ok"), ("one", 20, 30, "remove p/0", NOT_KNOWN), ("one", 40, 50, READ, "absent"),
        ("two", 60, 70, f"write p/0 replace {B} early", "ok"), ("two", 80, 90, READ, "absent")]),
    ("a write that could not be made, and was", "nobody's", False, [
        ("one", 0, 10, WRITE, NOT_REACHABLE), ("two", 20, 30, READ, "1")]),
    ("a write that could not be made", None, False, [
        ("one", 0, 10, WRITE, NOT_REACHABLE), ("two", 20, 30, READ, "absent")]),
    ("a killed write that takes effect late", None, False, [
        ("one", 0, None, WRITE, None), ("two", 20, 30, READ, "absent"), ("two", 40, 50, READ, "1")]),
    ("an acknowledged write that is lost", "wrong nil", False, [
        ("one", 0, 10, WRITE, "ok"), ("two", 20, 30, READ, "absent")]),
    ("an acknowledged replace that is lost", "lost or stale", False, [
        ("one", 0, 10, WRITE, "ok"), ("one", 20, 30, f"write p/0 replace {B} early", "ok"), ("two", 40, 50, READ, "1")]),
    ("a value that nobody wrote", "nobody's", False, [("two", 20, 30, READ, "7")]),
    ("an update made twice", "other", False, [
        ("one", 0, 10, WRITE, "ok"), ("one", 20, 30, f"update p/0 {B} early", f"ok {B}")]),
]


def kind_found(is_shared, calls):
    threads = {}
    for thread, begin, end, call, result in sorted(calls, key=lambda one: one[:2]):
        lines = threads.setdefault(thread, [])
        lines.append(f"i {begin} {call}")
        if end is not None:
            lines.append(f"r {end} {result}")
    logs = {thread: "\n".join(lines) for thread, lines in threads.items()}
    history = checker.History(["p/0"])
    outcomes = Outcomes(history)
    for part in [logs] if is_shared else [{thread: text} for thread, text in logs.items()]:
        outcomes.read(part)
    outcomes.order()
    violations = history.check()
    return history.unexpected or (kind_of(violations[0], history) if violations else None)


def misjudged():
    """A text for each."""
    found = [(name, kind, kind_found(is_shared, calls)) for name, kind, is_shared, calls in HISTORIES]
    return [f"{name}: found {found or 'nothing'}, not {kind or 'nothing'}" for name, kind, found in found if found != kind]
