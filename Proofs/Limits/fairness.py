"""Eight writers of one prefix: how long each waits, and how much each gets done."""
import subprocess

from common import PREFIX, ROOT, Times, begin, milliseconds, table

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
KERNEL, KERNEL_ALONE = "C, 8 processes, the kernel's flock", "C, 1 writer alone"


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


def kernel(folder):
    """The same recipe in C, with a lock that the kernel waits for."""
    floor = ROOT / "Benchmarks/Sources/CFloor"
    program = f"{folder}/kernel"
    sources = [ROOT / "Proofs/Limits/kernel.c", *(floor / f"{part}.c" for part in ("floor", "keybag", "box"))]
    subprocess.run(["cc", "-O2", "-I", floor / "include", "-o", program, *sources, "-lsodium"], check=True)
    return program


def write_in_c(machine, program, store, processes, seconds):
    started = [machine.start(program, store, PREFIX, seconds, f"of {number}") for number in range(processes)]
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
    if options.slow_disk:
        print("C: skipped, as its calls cannot be slowed")
    else:
        program = kernel(folder)
        for name, processes in [(KERNEL, 8), (KERNEL_ALONE, 1)]:
            measured[name] = write_in_c(machine, program, store, processes, options.seconds)
    table(HEADER, [row(name, times, options.seconds) for name, times in measured.items()])
    for name, kernels in [(FORMS[0][0], KERNEL), (ALONE[0], KERNEL_ALONE)]:
        if kernels in measured:
            print(f"{name}, of the kernel's: {compared(measured[name], measured[kernels])}")
    print()
    machine.remove(folder)


def compared(times, kernels):
    quantiles = [(0.5, "median"), (0.999, "99.9th percentile")]
    return ", ".join([
        f"writes {len(times.all) / len(kernels.all):.2f}",
        *(f"{name} {times.quantile(share) / kernels.quantile(share):.2f}" for share, name in quantiles),
        f"worst {times.worst / kernels.worst:.2f}",
    ])


def check_failures(name, times, report):
    for failure in sorted(set(times.failures)):
        report.check(False, f"{name}: {times.failures.count(failure)} calls failed: {failure}")


def check(name, times, report):
    ratio = times.quantile(0.999) / times.median
    report.check(ratio <= RATIO, f"{name}: the 99.9th percentile is {ratio:.1f} times the median, over {RATIO}")
    report.check(times.worst < WORST, f"{name}: the worst wait is {times.worst:.2f} s, not under {WORST} s")
    fewest, _ = times.shares
    report.check(fewest >= SHARE, f"{name}: one writer got {fewest:.2f} of the mean, under {SHARE}")
