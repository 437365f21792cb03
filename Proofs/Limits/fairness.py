"""Eight writers of one prefix: how long each waits, and how much each gets done."""
from common import PREFIX, Times, begin, milliseconds, table

RATIO, WORST, SHARE = 20, 1.0, 0.5
TIMEOUT = 30  # seconds, as users have it
HEADER = [
    "writers", "writes/s", "median", "99th", "99.9th", "of the median", "of the mean", "worst", "fewest writes", "most",
    "failures",
]
EACH, ONE = "of *", "one"
FORMS = [  # name, processes, threads of each, backends, key
    ("8 processes, a key each", 8, 1, "each", EACH),
    ("8 processes, one key", 8, 1, "each", ONE),
    ("8 threads of one backend, a key each", 1, 8, "one", EACH),
    ("8 threads of one backend, one key", 1, 8, "one", ONE),
    ("8 threads, a backend each", 1, 8, "each", EACH),
    ("4 processes of 2 threads", 4, 2, "one", EACH),
]
ALONE = ("1 writer alone", 1, 1, "one", EACH)


def row(name, times, seconds):
    fewest, most = times.shares
    return [
        name, f"{len(times.all) / seconds:,.0f}",
        *(milliseconds(times.quantile(share)) for share in (0.5, 0.99, 0.999)),
        f"{times.quantile(0.999) / times.median:.1f}", f"{times.quantile(0.999) / times.mean:.1f}",
        milliseconds(times.worst),
        f"{fewest:.2f}", f"{most:.2f}", len(times.failures),
    ]


def write(machine, store, form, *, seconds, slow_disk, timeout):
    _, processes, threads, backends, key = form
    started = [
        machine.limits("write", store, PREFIX, seconds, threads, backends, key, slow_disk, timeout)
        for _ in range(processes)
    ]
    begin(started)
    return Times(started)


def run(machine, options, report):
    """With a slow disk only errors count: eight that take turns wait eight times what one write takes."""
    folder = machine.folder(options.folder)
    store = f"{folder}/store"
    machine.fill(store, PREFIX, 1)
    measured = {}
    for form in [*FORMS, ALONE]:
        times = measured[form[0]] = write(
            machine, store, form, seconds=options.seconds, slow_disk=options.slow_disk, timeout=TIMEOUT
        )
        check_failures(form[0], times, report)
        if form is not ALONE and not options.slow_disk:
            check(form[0], times, report)
    table(HEADER, [row(name, times, options.seconds) for name, times in measured.items()])
    print()
    machine.remove(folder)


def check_failures(name, times, report):
    for failure in sorted(set(times.failures)):
        report.check(False, f"{name}: {times.failures.count(failure)} calls failed: {failure}")


def check(name, times, report):
    ratio = times.quantile(0.999) / times.median
    report.check(ratio <= RATIO, f"{name}: the 99.9th percentile is {ratio:.1f} times the median, over {RATIO}")
    report.check(times.worst < WORST, f"{name}: the worst wait is {times.worst:.2f} s, not under {WORST} s")
    fewest, _ = times.shares
    report.check(fewest >= SHARE, f"{name}: one writer got {fewest:.2f} of the mean, under {SHARE}")
