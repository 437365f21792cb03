import Foundation

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// Writers in the threads of one process, which archive as fast as they can and record how long each call took.
///
///     limits write DIRECTORY PREFIX SECONDS THREADS one|each KEY DELAY TIMEOUT
///
/// The threads share one backend, or have one each. KEY is what they write; with a `*` in it, each has a key of its own.
/// Every fsync and rename takes DELAY milliseconds longer. The process says "ready", begins at a line of standard input, and ends after
/// SECONDS or with standard input. It answers with a line for each thread, its times in nanoseconds, and one for each error.
struct WriterProcess {
    private let directory: String
    private let prefix: String
    private let duration: Duration
    private let threads: Int
    private let isShared: Bool
    private let key: String
    private let calls: SystemCalls
    private let timeout: Int

    init(_ arguments: [String]) throws {
        directory = arguments[1]
        prefix = arguments[2]
        guard let seconds = Double(arguments[3]), let threads = Int(arguments[4]),
            let delay = UInt32(arguments[7]), let timeout = Int(arguments[8])
        else { throw Violation(description: "no number") }
        duration = .seconds(seconds)
        self.threads = threads
        isShared = arguments[5] == "one"
        key = arguments[6]
        calls = delay == 0 ? SystemCalls() : Self.slow(by: delay)
        self.timeout = timeout
    }

    private static func slow(by milliseconds: UInt32) -> SystemCalls {
        SystemCalls(fault: { call in
            if call == .fsync || call == .rename { usleep(milliseconds * 1000) }
            return nil
        })
    }

    func run() throws {
        let shared = backend(directory, calls, timeout: timeout)
        let lockboxes = try (0..<threads).map { _ in
            try Lockbox(
                keyPrefix: prefix,
                backend: isShared ? shared : backend(directory, calls, timeout: timeout)
            )
        }
        for (number, lockbox) in lockboxes.enumerated() { _ = try lockbox.attributes(forKey: key(number)) }
        report("ready")
        _ = readLine()
        let deadline = ContinuousClock.now + duration
        inThreads(threads) { write(number: $0, lockboxes[$0], until: deadline) }
    }

    private func key(_ number: Int) -> String { key.replacing("*", with: "\(getpid()) \(number)") }

    private func write(number: Int, _ lockbox: Lockbox, until deadline: ContinuousClock.Instant) {
        let key = key(number)
        let clock = ContinuousClock()
        var times: [Int64] = []
        times.reserveCapacity(1 << 18)
        var failures: [String] = []
        var input = pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0)
        while clock.now < deadline, poll(&input, 1, 0) == 0 {
            let start = clock.now
            do { try lockbox.archiveObject(limitsValue, forKey: key) } catch { failures.append("\(error)") }
            times.append(Int64((clock.now - start) / .nanoseconds(1)))
        }
        Self.output.withLock { _ in
            for failure in failures { report("failure", failure.replacing("\n", with: " ")) }
            report("times", times.map(String.init).joined(separator: " "))
        }
    }

    private static let output = Protected(())
}
