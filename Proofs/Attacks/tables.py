"""Tables in Markdown."""
LEVELS = {frozenset(): "nothing", frozenset({0}): "`always` classes", frozenset({0, 2}): "`always` and `afterFirstUnlock` classes",
          frozenset({0, 1, 2}): "everything"}
DEVICES = ["none", "the one before", "the current one", "not replaced"]


def table(head, rows):
    lines = ["| " + " | ".join(row) + " |" for row in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def outcome(levels):
    return " or ".join(LEVELS[frozenset(each)] for each in sorted(map(sorted, levels)))


def combinations(changes, resealed):
    """One row for all secrets that open the same."""
    seen = {}
    for change in changes:
        if change.resealed == resealed:
            for group, outcomes in change.seen.items():
                known = seen.setdefault(group, (set(), set()))
                for all_seen, of_change in zip(known, outcomes):
                    all_seen |= of_change
    rows, kinds = {}, {}
    for (device, bag, secret), outcomes in seen.items():
        rows.setdefault((device, bag, *map(outcome, outcomes)), []).append(secret)
        kinds.setdefault((device, bag), []).append(secret)
    ordered = sorted(rows.items(), key=lambda row: (DEVICES.index(row[0][0]), row[0][1:]))
    last = ("copies from before", "what is in the store now") if resealed else ("copies, and items left for later", "what was written since")
    return table(("device key", "keybag", "secret", *last),
                 [(device, bag, "any, or none" if secrets == kinds[device, bag] else "; ".join(sorted(secrets)), old, new)
                  for (device, bag, old, new), secrets in ordered])


def changes(all_changes):
    return table(("change", "combinations", "of them open something", "boxes tried"),
                 [(change.name + ("" if change.resealed else ", items left for later"), str(change.count), str(change.opened),
                   str(2 * change.openings)) for change in all_changes])


def forgeries(results):
    return table(("forgery", "requires passcode, class and identity", "… and has unlocked it before", "requires nothing",
                  "… and has unlocked it before", "its user has"), [(what, *cells) for what, cells in results])
