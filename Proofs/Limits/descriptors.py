"""How many descriptors a store needs, and what happens where there are few."""
from common import table

PREFIXES = 100
LIMITS = [64, 32]
# How many free descriptors are enough where the rest of the program has used up all others.
FEWEST = {"new": {"write": 8, "read": 6, "list": 6}, "in use": {"write": 3, "read": 2, "list": 2}}


def run(machine, options, report):
    folder = machine.folder(options.folder)
    rows = []
    for limit in LIMITS:
        *operations, (_, kept) = machine.lines("descriptors", f"{folder}/{limit}", limit, PREFIXES)
        rows.append([limit, *(failures for _, failures, _ in operations), kept])
        for name, failures, first in operations:
            described = f"{limit} descriptors, {PREFIXES} prefixes"
            report.check(failures == "0", f"{described}: {name} failed {failures} times: {first}")
    names = [name for name, _, _ in operations]
    table(["descriptors allowed", *(f"{name}, failures of {2 * PREFIXES}" for name in names), "kept"], rows)
    pressure(machine, f"{folder}/pressure", report)
    machine.remove(folder)


def pressure(machine, store, report):
    """The program itself has used up all descriptors but a few."""
    fewest = {}
    for state, name, count in machine.lines("pressure", store):
        fewest.setdefault(state, {})[name] = int(count)
        bound = FEWEST[state][name]
        report.check(int(count) <= bound, f"{name}, backend {state}: needs {count} free descriptors, over {bound}")
    table(["backend", *(f"{name} needs" for name in FEWEST["new"])], [
        [state, *(counts[name] for name in FEWEST["new"])] for state, counts in fewest.items()
    ])
