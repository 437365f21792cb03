"""The most memory that each operation on a store of many items takes, above a process that only opens the store."""
import os
import subprocess
import time

from common import ENVIRONMENT, PREFIX, memory_folder, table

MIB = 1024  # KiB
# MiB for a million items, in proportion for other numbers, and what few items take: Argon2id takes 64 MiB of an export.
FEW = {"export": 96}
BOUNDS = {"list": 700, "forEachItem": 150, "verify": 150, "export": 150, "rotateKeys": 150, "lockbox list": 700, "removeAll": 150}
IN_PROCESS = ["list", "forEachItem", "verify", "export", "rotateKeys"]


def run(machine, options, report):
    folder = machine.folder(memory_folder(options.items, "memory"))
    store = f"{folder}/store"
    start = time.monotonic()
    machine.fill(store, PREFIX, options.items)
    print(f"{options.items:,} items made in {time.monotonic() - start:.0f} s\n", flush=True)
    (_, _, base), = machine.lines("measure", store, PREFIX, "open")
    rows = [["open", f"{int(base) / MIB:.0f} MiB in all", "", ""]]
    for name in IN_PROCESS:
        rows.append(measured(machine, store, folder, name, int(base), options.items, options.items, report))
        if name == "export":
            os.remove(f"{folder}/backup")
    rows += command(store, options, report)
    rows.append(measured(machine, store, folder, "removeAll", int(base), options.items, 0, report))
    table(["operation", "peak memory above", "for each item", "time"], rows)
    machine.remove(folder)


def measured(machine, store, folder, name, base, items, expected, report):
    file = [f"{folder}/backup"] if name == "export" else []
    (count, seconds, peak), = machine.lines("measure", store, PREFIX, name, *file)
    report.check(int(count) == expected, f"{name}: {count} items, not {expected}")
    return row(name, int(peak) - base, float(seconds), items, report)


def row(name, kibibytes, seconds, items, report):
    bound = FEW.get(name, 32) + BOUNDS[name] * items / 1e6
    report.check(kibibytes / MIB <= bound, f"{name}: {kibibytes / MIB:.0f} MiB, over {bound:.0f} MiB")
    return [name, f"{kibibytes / MIB:.0f} MiB", f"{kibibytes * 1024 / items:.0f} bytes", f"{seconds:.1f} s"]


def command(store, options, report):
    """`lockbox list`, whose peak is read from outside until it ends."""
    if not options.command:
        print("lockbox list: skipped, as no --command is given")
        return []
    arguments = [options.command, "list", "--directory", store, "--prefix", PREFIX]
    start = time.monotonic()
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
    peak = 0
    try:
        while process.poll() is None:
            peak = max(peak, peak_of(process.pid))
            time.sleep(0.002)
    finally:
        process.kill()
        process.wait()
    report.check(process.returncode == 0, f"lockbox list: status {process.returncode}")
    return [row("lockbox list", peak, time.monotonic() - start, options.items, report)]


def peak_of(pid):
    """In KiB; 0 once it has ended."""
    try:
        with open(f"/proc/{pid}/status") as status:
            return next((int(line.split()[1]) for line in status if line.startswith("VmHWM:")), 0)
    except (FileNotFoundError, ProcessLookupError):
        return 0
