// Lockbox beside the C program that does the same work on the same directory, in one run.
//
//     swift run -c release LockboxBenchmarks [DIRECTORY [ROWS]]
//
// The two take turns, a few calls each, so that what slows the machine slows both; a ratio is of medians.

import CFloor
import Foundation
import Lockbox

struct Session: Codable {
    var user = "alice@example.com"
    var token = "8f14e45fceea167a5a36dedd4bea2543"
    var issued = Date(timeIntervalSinceReferenceDate: 789_000_000)
    var scopes = ["read", "write"]
    var attempts = 3
}

@main struct Benchmarks {
    static func main() async throws {
        var arguments = CommandLine.arguments.dropFirst()
        if arguments.first == "writer" { return try writer(Array(arguments)) }
        if arguments.first?.hasPrefix("cluster") == true { return try cluster(Array(arguments)) }
        let isOfWriters = arguments.first == "writers"
        if isOfWriters { arguments.removeFirst() }
        let place = arguments.first ?? FileManager.default.currentDirectoryPath
        let directory = "\(place)/lockbox-benchmark-\(UInt32.random(in: 0 ... .max))"
        defer { try? FileManager.default.removeItem(atPath: directory) }
        if isOfWriters { return try Writers(directory: directory).run() }
        print("Lockbox beside C with libsodium, 256-byte values, in \(place)\n")
        print("| operation | Lockbox, median | C, median | ratio |\n|---|---:|---:|---:|")
        let benchmarks = try Benchmarks(directory)
        try benchmarks.run()
        try unlocked("\(directory)-passcode")
        try await benchmarks.refresh()
    }

    /// One of several processes: `writer CONTENDER DIRECTORY INDEX`.
    private static func writer(_ arguments: [String]) throws {
        guard arguments.count == 4, let contender = Contender(rawValue: arguments[1]),
            let index = Int(arguments[3])
        else { exit(64) }
        let score = try Writers.write(contender, arguments[2], index, nil)
        print(score.writes, score.longest)
    }

    /// `cluster ENDPOINTS [ROWS]`, and what it starts.
    private static func cluster(_ arguments: [String]) throws {
        #if Etcd
            if let callers = Callers(arguments) { return try callers.run() }
            guard arguments.count >= 2 else { exit(64) }
            try Cluster(endpoints: arguments[1].split(separator: ",").map(String.init)).run()
        #else
            print("Build it with --traits Etcd.")
            exit(64)
        #endif
    }

    private let small: Lockbox
    private let large: Lockbox
    private let floor: Floor
    private let data = Data((0..<256).map { UInt8($0) })
    private let session = Session()

    private init(_ directory: String) throws {
        let backend = EncryptedFileBackend(directory: directory)
        small = try Lockbox(keyPrefix: "com.example.small", backend: backend)
        large = try Lockbox(keyPrefix: "com.example.large", backend: backend)
        for index in 0..<1000 { try small.archiveObject(data, forKey: "key\(index)") }
        try small.archiveObject(session, forKey: "session")
        try large.archiveObject(data, forKey: "key0")
        floor = Floor(directory)
    }

    /// The cost to each call of looking into the kernel's keyring.
    private static func unlocked(_ directory: String) throws {
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let (own, shared) = (
            EncryptedFileBackend(directory: directory), EncryptedFileBackend(directory: directory)
        )
        try own.setPasscode(.value("passcode"), strength: .interactive)
        guard try shared.unlock(.value("passcode"), scope: .user) == .user else {
            print("| read Data, unlocked for the user | the kernel refuses | | |")
            return
        }
        defer { try? shared.lock(includingAfterFirstUnlock: true) }
        let lockbox = try (
            own: Lockbox(keyPrefix: "p", backend: own), shared: Lockbox(keyPrefix: "p", backend: shared)
        )
        try lockbox.own.archiveObject(Data(count: 256), forKey: "key")
        compare(
            "read Data, unlocked for the user, against unlocked for the process",
            20_000,
            { _ = try lockbox.shared.unarchiveObject(Data.self, forKey: "key") },
            { _ = try lockbox.own.unarchiveObject(Data.self, forKey: "key") }
        )
    }

    private func refresh() async throws {
        try await small.archiveObject(session, forKey: "session")
        try await compareAsync(
            "a fresh value by refreshed, against unarchiveObject, both async",
            20_000,
            {
                _ = try await small.refreshed("session", as: Session.self, isFresh: { _ in true }) {
                    $0.value
                }
            },
            { _ = try await small.unarchiveObject(Session.self, forKey: "session") }
        )
        let (lockbox, delay) = (small, Duration.milliseconds(100))
        try await compareAsync(
            "64 callers of a value that takes 100 ms to refresh, against that time",
            10,
            {
                let before = try await lockbox.unarchiveObject(Session.self, forKey: "session")!.attempts
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for _ in 0..<64 {
                        group.addTask {
                            _ = try await lockbox.refreshed(
                                "session",
                                as: Session.self,
                                isFresh: { $0.attempts > before }
                            ) { _ in
                                try await Task.sleep(for: delay)
                                return Session(attempts: before + 1)
                            }
                        }
                    }
                    try await group.waitForAll()
                }
            },
            { try await Task.sleep(for: delay) }
        )
    }

    private func run() throws {
        let (few, many) = (Keys(1000), Keys(100_000))
        let prefix = small.keyPrefix
        compare(
            "read Data",
            20_000,
            { _ = try small.unarchiveObject(Data.self, forKey: few.next()) },
            { _ = floor.read(prefix, few.next()) }
        )
        compare(
            "read a small Codable, against C and JSONDecoder",
            20_000,
            { _ = try small.unarchiveObject(Session.self, forKey: "session") },
            { _ = try JSONDecoder().decode(Session.self, from: floor.read(prefix, "session")) }
        )
        compare(
            "durable write of Data",
            2000,
            { try small.archiveObject(data, forKey: few.next()) },
            { floor.write(floor_write, prefix, few.next(), data, format: 1) }
        )
        compare(
            "durable write of Data, against C without lock and look-ups",
            2000,
            { try small.archiveObject(data, forKey: few.next()) },
            { floor.write(floor_write_bare, prefix, few.next(), data, format: 1) }
        )
        compare(
            "durable write of a small Codable, against C and JSONEncoder",
            2000,
            { try small.archiveObject(session, forKey: "session") },
            { floor.write(floor_write, prefix, "session", try JSONEncoder().encode(session), format: 2) }
        )
        for atOnce in [1, 64, 500] {
            compare(
                "batch of 1,000 writes, against C without lock and look-ups, \(atOnce) files at once",
                10,
                {
                    try small.batch { batch in
                        for key in few.all { try batch.archiveObject(data, forKey: key) }
                    }
                },
                { floor.writeBatch(prefix, few.all, data, atOnce: atOnce) }
            )
        }
        compare(
            "batch of 1,000 writes, against one by one",
            2,
            {
                try small.batch { batch in for key in few.all { try batch.archiveObject(data, forKey: key) } }
            },
            { for key in few.all { try small.archiveObject(data, forKey: key) } }
        )
        compare(
            "list 1,001 items",
            100,
            { _ = try small.list().items },
            { floor.list(prefix) }
        )
        let last = "read Data of 100,000 keys, against Lockbox with 1,000"
        guard isWanted(last) else { return }
        // Without the syncs, which would take the better part of a minute; then once through, into the cache.
        for key in many.all { floor.write(floor_write_unsynced, large.keyPrefix, key, data, format: 1) }
        for key in many.all { _ = try large.unarchiveObject(Data.self, forKey: key) }
        compare(
            last,
            20_000,
            { _ = try large.unarchiveObject(Data.self, forKey: many.next()) },
            { _ = try small.unarchiveObject(Data.self, forKey: few.next()) }
        )
    }
}

/// `key0`, `key1`, … in an order that jumps about.
final class Keys {
    private let count: Int
    private var index = 0

    init(_ count: Int) { self.count = count }

    var all: [String] { (0..<count).map { "key\($0)" } }

    func next() -> String {
        index = (index + 7919) % count
        return "key\(index)"
    }
}

/// The C program.
final class Floor {
    typealias Text = UnsafePointer<CChar>?
    typealias Write = (OpaquePointer?, Text, Text, UnsafePointer<UInt8>?, Int, CInt) -> CInt

    private let store: OpaquePointer
    private let buffer = UnsafeMutablePointer<UInt8>.allocate(capacity: 4096)

    init(_ directory: String) {
        guard let store = floor_open(directory) else { exit(1) }
        self.store = store
    }

    deinit {
        floor_close(store)
        buffer.deallocate()
    }

    func read(_ prefix: String, _ key: String) -> Data {
        var format: CInt = 0
        let length = floor_read(store, prefix, key, buffer, 4096, &format)
        precondition(length > 0)
        return Data(bytesNoCopy: buffer, count: length, deallocator: .none)
    }

    func writeBatch(_ prefix: String, _ keys: [String], _ data: Data, atOnce: Int) {
        let texts = keys.map { UnsafePointer(strdup($0)) }
        defer { for text in texts { free(UnsafeMutablePointer(mutating: text)) } }
        let result = data.withUnsafeBytes { bytes in
            floor_write_batch(
                store,
                prefix,
                texts,
                texts.count,
                bytes.bindMemory(to: UInt8.self).baseAddress,
                bytes.count,
                1,
                atOnce
            )
        }
        precondition(result == 0)
    }

    func write(_ write: Write, _ prefix: String, _ key: String, _ data: Data, format: CInt) {
        let result = data.withUnsafeBytes { bytes in
            prefix.withCString { prefix in
                key.withCString {
                    write(
                        store,
                        prefix,
                        $0,
                        bytes.bindMemory(to: UInt8.self).baseAddress,
                        bytes.count,
                        format
                    )
                }
            }
        }
        precondition(result == 0)
    }

    func list(_ prefix: String) {
        var bytes = 0
        precondition(floor_list(store, prefix, &bytes) > 0)
    }
}
