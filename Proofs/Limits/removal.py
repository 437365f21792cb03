"""How long a writer waits beside the removal of many items of its prefix, on tmpfs, where nothing waits for a disk."""
from common import PREFIX, Times, begin, finish, memory_folder, milliseconds, table

WORST, REMOVALS = 1.0, 1000


def run(machine, options, report):
    folder = machine.folder(memory_folder(options.removals, "removal"))
    rows = []
    for which in ["all", "expired"]:
        store = f"{folder}/{which}"
        # Expired by the time the last one is made, which the first, archived one is too.
        machine.fill(store, PREFIX, options.removals, "-" if which == "all" else 0)
        rows.append(beside_a_writer(machine, store, which, options.removals, report))
    header = ["removal of", "files", "time", "most under one lock", "writes meanwhile", "median", "longest wait"]
    table(header, rows)
    machine.remove(folder)


def beside_a_writer(machine, store, which, count, report):
    remover = machine.limits("remove", store, PREFIX, which)
    writer = machine.limits("write", store, PREFIX, 600, 1, "one", "writer", 0, 30)
    begin([writer, remover])
    (time, outcome, removed, most), = finish(remover)
    writer.stdin.close()
    times = Times([writer])
    name = f"removal of {which} beside a writer"
    report.check(outcome == "done", f"{name}: {outcome}")
    report.check(int(removed) >= count, f"{name}: {removed} of {count} were removed")
    report.check(not times.failures, f"{name}: the writer failed {len(times.failures)} times: {times.failures[:1]}")
    report.check(times.worst < WORST, f"{name}: the writer waited {times.worst:.2f} s, not under {WORST} s")
    report.check(int(most) <= REMOVALS, f"{name}: {most} removals under one lock, over {REMOVALS}")
    return [
        which, f"{int(removed):,}", milliseconds(float(time)), f"{int(most):,}", len(times.all),
        milliseconds(times.median), milliseconds(times.worst),
    ]
