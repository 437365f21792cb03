"""Whether the time of a migration is proportional to the number of entries: the processor's, as the machine may be busy."""
from common import memory_folder, table

# A file has at most 16 MiB, so only the shortest entries can be so many.
MANY, FEWER = ["lockbox2", "environment"], ["json", "propertyList", "netrc"]
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
MIB = 1024  # KiB
# Twice as many entries: what is linear takes twice as long, what is quadratic four times.
TWICE, MOST = 2, 3


def run(machine, options, report):
    cases = [(source, options.entries, "memory") for source in MANY]
    cases += [(source, min(options.entries, options.stored), "memory") for source in FEWER]
    cases.append(("environment", min(options.entries, options.stored), "files"))
    rows = []
    for source, count, destination in cases:
        rows.append(compared(machine, source, count, destination, report))
        print("| " + " | ".join(rows[-1]) + " |", flush=True)
    print()
    header = ["source", "into", "entries", "time", "twice as many", "ratio", "for each entry", "memory"]
    table(header, rows)


def compared(machine, source, count, destination, report):
    few, few_peak = measured(machine, source, count, destination)
    many, many_peak = measured(machine, source, TWICE * count, destination)
    ratio = many / few
    name = f"migration of {source} into {destination}"
    report.check(ratio <= MOST, f"{name}: twice as many entries take {ratio:.2f} times as long")
    return [
        source, destination, f"{count:,}", f"{few:.1f} s", f"{many:.1f} s", f"{ratio:.2f}",
        f"{many / (TWICE * count) * 1e6:.1f} µs", f"{few_peak / MIB:.0f}, {many_peak / MIB:.0f} MiB",
    ]


def measured(machine, source, count, destination):
    """Seconds of the processor, and the most memory in KiB."""
    folder = machine.folder(memory_folder(count, "migration"))
    if source != "lockbox2":
        with open(f"{folder}/source", "w") as file:
            write(file, source, count)
    (migrated, seconds, peak), = machine.lines("migrate", source, count, destination, folder)
    if int(migrated) != count:
        raise SystemExit(f"Limits: failed: {migrated} of {count} entries of {source} were migrated")
    machine.remove(folder)
    return float(seconds), int(peak)


def write(file, source, count):
    begin, entry, separator, end = {
        "environment": ("", "{}=1", "\n", "\n"),
        "json": ("{", '"{}":"1"', ",\n", "}\n"),
        "propertyList": ("<plist><dict>\n", "<key>{}</key><string>1</string>", "\n", "</dict></plist>\n"),
        "netrc": ("", "machine {} login l password p", "\n", "\n"),
    }[source]
    file.write(begin + entry.format(name(0)))
    file.writelines(separator + entry.format(name(number)) for number in range(1, count))
    file.write(end)


def name(number):
    """Four letters, as in LimitsMigration.swift."""
    return "".join(LETTERS[number // weight % 52] for weight in (140_608, 2704, 52, 1))
