import Foundation

/// The usage of this process so far.
struct Usage {
    let microseconds: Int
    let switches: Int

    init() throws {
        var usage = rusage()
        // RUSAGE_SELF, which Glibc imports with another type.
        try require(getrusage(0, &usage) == 0, "getrusage: errno \(errno)")
        let times = [usage.ru_utime, usage.ru_stime]
        microseconds = times.reduce(0) { $0 + Int($1.tv_sec) * 1_000_000 + Int($1.tv_usec) }
        switches = Int(usage.ru_nvcsw) + Int(usage.ru_nivcsw)
    }
}
