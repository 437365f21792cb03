import Foundation

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// A worker of Proofs/Refresh/run: calls the verb on sessions whose tokens may be used once, until the standard input ends. It says
/// `ready`, and begins after the first line of its input.
///
///     refresh start engine=files:DIRECTORY issuer=PORT sessions=a,b worker=1 log=FILE    signs in
///     refresh run … takeover=500 tasks=2
///     refresh look …      logs what is stored, refreshes it once, and logs it again
func refresh(_ arguments: [String]) throws {
    let worker = try RefreshWorker(Array(arguments.dropFirst()))
    let done = DispatchSemaphore(value: 0)
    Task.detached {
        await worker.run(arguments.first ?? "")
        done.signal()
    }
    done.wait()
}

/// A token of a family, which is what one sign-in has given.
struct RefreshToken: Codable, Sendable, Equatable, CustomStringConvertible {
    var family: Int
    var generation: Int
    var freshUntil: Int

    var description: String { "\(family) \(generation)" }
    var isFresh: Bool { freshUntil > RefreshLog.now }
}

struct RefreshWorker: Sendable {
    struct Refused: Error { let token: RefreshToken }

    let lockbox: Lockbox
    let settings: [String: String]
    let log: RefreshLog
    private let isStopped = Protected(false)

    init(_ arguments: [String]) throws {
        var settings: [String: String] = [:]
        for argument in arguments {
            let parts = argument.split(separator: "=", maxSplits: 1).map(String.init)
            try require(parts.count == 2, "bad argument \(argument)")
            settings[parts[0]] = parts[1]
        }
        let engine = settings["engine"] ?? ""
        var backend: any LockboxBackend
        if engine.hasPrefix("files:") {
            // Longer than anybody is stopped while he has the lock.
            let storage = FileStorage(
                StoreLocation(String(engine.dropFirst(6))),
                lockTimeout: .seconds(120),
                isForOneMachine: true
            )
            backend = SealedBackend(storage: storage)
        } else {
            backend = try HistoryEngine(engine).items
        }
        lockbox = try Lockbox(keyPrefix: prefix, backend: backend)
        log = try RefreshLog(settings["log"]!)
        self.settings = settings
    }

    private func number(_ name: String) -> Int { settings[name].flatMap { Int($0) } ?? 0 }
    private var sessions: [String] { settings["sessions"]!.split(separator: ",").map(String.init) }
    var takeover: Duration { .milliseconds(number("takeover")) }

    func run(_ mode: String) async {
        if mode == "start" {
            for session in sessions {
                await record("start", session) {
                    let token = try signIn("start", session)
                    try lockbox.archiveObject(token, forKey: session)
                    return token
                }
            }
            return
        }
        if mode == "look" { return await look() }
        let first = sessions[0]
        _ = try? await lockbox.async { try $0.containsObject(forKey: first) }  // opens the keys
        log.watchForPauses()
        print("ready")
        fflush(nil)
        _ = readLine()
        Thread.detachNewThread { [isStopped] in
            waitForEndOfInput()
            isStopped.withLock { $0 = true }
        }
        await withTaskGroup(of: Void.self) { group in
            for task in 0..<number("tasks") {
                group.addTask { await loop(task) }
            }
        }
    }

    private func loop(_ task: Int) async {
        var count = 0
        while !isStopped.withLock({ $0 }) {
            count += 1
            let session = sessions.randomElement()!
            let id = "\(settings["worker"]!)-\(task)-\(count)"
            await record(id, session) { try await call(id, session) }
            if Int.random(in: 0..<40) == 0 {
                await record("\(id)-label", session) {
                    try await offPool { try touch(session, id) }
                    return nil
                }
            }
            try? await Task.sleep(for: .microseconds(Int.random(in: 0...4000)))
        }
    }

    /// Changes the item, and not its value.
    private func touch(_ session: String, _ label: String) throws {
        if Bool.random() {
            try lockbox.setAttributes(WriteOptions(label: .set(label)), forKey: session)
        } else {
            try lockbox.update(session, as: RefreshToken.self) { _ in }
        }
    }

    private func look() async {
        for session in sessions {
            for round in ["before", "call", "after"] {
                let id = "look-\(session)-\(round)"
                await record(id, session) {
                    if round == "call" { return try await call(id, session, isForced: true) }
                    return try await lockbox.unarchiveObject(forKey: session)
                }
            }
        }
        let keys = try? await lockbox.async { try $0.allKeys() }
        if keys.map(Set.init)?.isSubset(of: Set(sessions)) != true {
            log.line("v", "a list has \(keys ?? [])")
        }
    }

    private func record(_ id: String, _ session: String, _ body: () async throws -> RefreshToken?) async {
        log.line("b", "\(id) \(session)")
        do {
            log.line("r", "\(id) \(try await body()?.description ?? "absent")")
        } catch {
            let reason = (error as? Lockbox.RefreshError<RefreshToken>)?.reason
            let code = ((reason ?? error) as? LockboxError)?.code.rawValue ?? "\(type(of: error))"
            let kind = reason == nil ? code : "notStored:\(code)"
            log.line("e", "\(id) \(kind) \(String(describing: error).replacing("\n", with: " "))")
        }
    }

    private func call(_ id: String, _ session: String, isForced: Bool = false) async throws -> RefreshToken? {
        let (isUsable, signsIn) = (Int.random(in: 0..<4) == 0 && !isForced, Bool.random())
        do {
            return try await lockbox.refreshed(
                session,
                as: RefreshToken.self,
                limits: .init(takeover: takeover, storing: .seconds(30)),
                isFresh: { $0.isFresh && !isForced },
                isUsable: { _ in isUsable },
                refresh: { old in
                    if old.value.isFresh, !isForced {
                        log.line("v", "\(id) asks with the fresh \(old.value)")
                    }
                    return try await exchange(id, session, old.value, old.mayBeSpent, signsIn)
                }
            )
        } catch let error as Refused {
            // The other way to sign in anew: an update, which leaves any other token.
            return try await offPool {
                let new = try signIn(id, session)
                return try lockbox.update(session, as: RefreshToken.self) {
                    if $0 == error.token { $0 = new }
                }
            }
        }
    }

    /// The issuer's next token. If it has refused the old one, that of a new family, or an error.
    func exchange(
        _ id: String,
        _ session: String,
        _ old: RefreshToken,
        _ mayBeSpent: Bool,
        _ signsIn: Bool
    ) async throws -> RefreshToken {
        log.line("a", "\(id) \(old) \(mayBeSpent ? 1 : 0)")
        return try await offPool {
            if let new = try ask("refresh \(session) \(old) \(id)") {
                log.line("g", "\(id) \(new)")
                return new
            }
            guard signsIn else { throw Refused(token: old) }
            return try signIn(id, session)
        }
    }

    private func signIn(_ id: String, _ session: String) throws -> RefreshToken {
        guard let new = try ask("signin \(session) \(id)") else { throw Violation(description: "no sign-in") }
        log.line("s", "\(id) \(new)")
        return new
    }

    /// Nil if the issuer has refused.
    private func ask(_ request: String) throws -> RefreshToken? {
        let connection = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(connection) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(number("issuer")).bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        let size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let status = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(connection, $0, size) }
        }
        var line = request + "\n"
        try require(status == 0, "the issuer is away, errno \(errno)")
        _ = line.withUTF8 { write(connection, $0.baseAddress, $0.count) }
        var bytes = [UInt8](repeating: 0, count: 100)
        let count = read(connection, &bytes, bytes.count)
        let words = String(decoding: bytes.prefix(max(count, 0)), as: UTF8.self).split { " \n".contains($0) }
        if words.first == "refused" { return nil }
        let numbers = words.dropFirst().compactMap { Int($0) }
        try require(words.first == "ok" && numbers.count == 3, "the issuer said \(words)")
        return RefreshToken(
            family: numbers[0],
            generation: numbers[1],
            freshUntil: RefreshLog.now + numbers[2] * 1_000_000
        )
    }
}

/// A line for each event, in nanoseconds of CLOCK_MONOTONIC. A line is one write(2): a kill loses none that was written.
struct RefreshLog: Sendable {
    private let file: CInt

    init(_ path: String) throws {
        file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        try require(file >= 0, "\(path): errno \(errno)")
    }

    static var now: Int {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return time.tv_sec * 1_000_000_000 + time.tv_nsec
    }

    func line(_ kind: String, _ text: String) {
        var line = "\(kind) \(Self.now) \(text)\n"
        let (count, written) = line.withUTF8 { ($0.count, write(file, $0.baseAddress, $0.count)) }
        if written != count { fatalError("the log could not be written, errno \(errno)") }
    }

    /// Logs when this process did not run, whoever stopped it.
    func watchForPauses() {
        Thread.detachNewThread {
            var last = Self.now
            while true {
                usleep(20_000)
                if Self.now - last > 100_000_000 { line("p", "\(last)") }
                last = Self.now
            }
        }
    }
}
