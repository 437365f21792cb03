"""The results of a run, a line for each fault."""
from workload import KINDS

SUMS = {
    "times": "faults", "calls": "operations", "kills": "kills", "stops": "stops", "outcome not known": "unknown",
    "then removed at once": "removals", "not reachable": "expected", "unexpected errors": "errors",
}


class Table:
    def __init__(self):
        self.rows = {}

    def add(self, name, one):
        row = self.rows.setdefault(name, dict.fromkeys([*SUMS.values(), *KINDS, "gap", "seconds"], 0))
        found = one.result | {
            "faults": one.faults, "unknown": one.outcomes.unknown, "removals": one.outcomes.removals,
            "expected": one.outcomes.expected,
        }
        for column in [*SUMS.values(), "seconds"]:
            row[column] += found[column]
        for kind in KINDS:
            row[kind] += one.kinds[kind]
        row["gap"] = max(row["gap"], one.outcomes.longest_gap())

    def total(self, column):
        return sum(row[column] for row in self.rows.values())

    def text(self):
        titles = ["fault", *SUMS, *KINDS, "longest without a write", "seconds"]
        lines = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
        for name, row in self.rows.items():
            cells = [f"{row[column]:,}" for column in [*SUMS.values(), *KINDS]]
            lines.append(f"| {name} | {' | '.join(cells)} | {row['gap']:.1f} s | {row['seconds']:.0f} |")
        totals = [f"{self.total(column):,}" for column in [*SUMS.values(), *KINDS]]
        lines.append(f"| all | {' | '.join(totals)} | | {self.total('seconds'):.0f} |")
        return "\n".join(lines)
