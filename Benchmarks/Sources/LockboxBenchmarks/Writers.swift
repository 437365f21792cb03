// Eight writers at once, each with its own keys under one prefix:
//
//     swift run -c release LockboxBenchmarks writers [DIRECTORY]
//
// The contenders take turns of a second, as threads and as processes.

import CFloor
import Foundation
import Lockbox

enum Contender: String, CaseIterable {
    case lockbox = "Lockbox"
    case locked = "C with the lock"
    case bare = "C without a lock"
    case sqlcipher = "SQLCipher, WAL, synchronous=FULL"

    static let prefix = "com.example.small"

    /// Returns a closure that writes a value durably, or nil if the contender is not installed.
    func writer(_ directory: String, _ shared: EncryptedFileBackend?) throws -> ((String) throws -> Void)? {
        let data = Data((0..<256).map { UInt8($0) })
        switch self {
        case .lockbox:
            let backend = shared ?? EncryptedFileBackend(directory: directory)
            let lockbox = try Lockbox(keyPrefix: Self.prefix, backend: backend)
            return { try lockbox.archiveObject(data, forKey: $0) }
        case .locked, .bare:
            let floor = Floor(directory)
            let write = self == .locked ? floor_write : floor_write_bare
            return { floor.write(write, Self.prefix, $0, data, format: 1) }
        case .sqlcipher:
            guard let cipher = cipher_open("\(directory)/database") else { return nil }
            return { key in
                let result = data.withUnsafeBytes {
                    cipher_write(cipher, key, $0.baseAddress, CInt($0.count))
                }
                precondition(result == 0)
            }
        }
    }
}

struct Writers {
    static let count = 8
    static let seconds = 1.0
    static let rounds = 5

    let directory: String

    /// The work of one writer.
    struct Score {
        var writes = 0
        var longest = 0.0
    }

    func run() throws {
        let backend = EncryptedFileBackend(directory: directory)
        try Lockbox(keyPrefix: Contender.prefix, backend: backend).archiveObject(Data(), forKey: "first")
        print(
            "| \(Self.count) writers | durable writes a second | slowest writer, of the mean | longest wait |"
        )
        print("|---|---:|---:|---:|")
        for (kind, turn) in [("threads", threads), ("processes", processes)] {
            var scores: [Contender: [[Score]]] = [:]
            for _ in 0..<Self.rounds {
                for contender in Contender.allCases {
                    if let round = try turn(contender) { scores[contender, default: []].append(round) }
                }
            }
            for contender in Contender.allCases { print(row(contender, kind, scores[contender])) }
        }
    }

    private func row(_ contender: Contender, _ kind: String, _ rounds: [[Score]]?) -> String {
        guard let rounds else { return "| \(contender.rawValue), \(kind) | not installed | | |" }
        let totals = rounds.map { Double($0.reduce(0) { $0 + $1.writes }) / Self.seconds }.sorted()
        // Of all rounds together: within a second a writer may have bad luck.
        let each = (0..<Self.count).map { index in rounds.reduce(0) { $0 + $1[index].writes } }
        let share = Double(each.min() ?? 0) / (Double(each.reduce(0, +)) / Double(Self.count))
        let longest = rounds.joined().map(\.longest).max() ?? 0
        return
            "| \(contender.rawValue), \(kind) | \(Int(totals[totals.count / 2])) | \((share * 100).rounded() / 100) "
            + "| \((longest * 10_000).rounded() / 10) ms |"
    }

    private func threads(_ contender: Contender) throws -> [Score]? {
        let shared = EncryptedFileBackend(directory: directory)
        guard try contender.writer(directory, shared) != nil else { return nil }
        nonisolated(unsafe) let scores = UnsafeMutablePointer<Score>.allocate(capacity: Self.count)
        defer { scores.deallocate() }
        let group = DispatchGroup()
        for index in 0..<Self.count {
            group.enter()
            Thread.detachNewThread {
                scores[index] = (try? Self.write(contender, directory, index, shared)) ?? Score()
                group.leave()
            }
        }
        group.wait()
        return Array(UnsafeBufferPointer(start: scores, count: Self.count))
    }

    private func processes(_ contender: Contender) throws -> [Score]? {
        guard try contender.writer(directory, nil) != nil else { return nil }
        let all = try (0..<Self.count).map { index in
            let (process, pipe) = (Process(), Pipe())
            process.executableURL = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath()
            process.arguments = ["writer", contender.rawValue, directory, "\(index)"]
            process.standardOutput = pipe
            try process.run()
            return pipe
        }
        return all.map { pipe in
            let words = String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
                .split(whereSeparator: \.isWhitespace)
            return Score(writes: Int(words.first ?? "") ?? 0, longest: Double(words.last ?? "") ?? 0)
        }
    }

    /// One writer, for its time.
    static func write(
        _ contender: Contender,
        _ directory: String,
        _ index: Int,
        _ shared: EncryptedFileBackend?
    ) throws -> Score {
        guard let write = try contender.writer(directory, shared) else { return Score() }
        var score = Score()
        let clock = ContinuousClock()
        let start = clock.now
        var last = start
        while last - start < .seconds(seconds) {
            try write("writer \(index) key \(score.writes % 50)")
            let now = clock.now
            score.longest = max(score.longest, (now - last) / .seconds(1))
            score.writes += 1
            last = now
        }
        return score
    }
}
