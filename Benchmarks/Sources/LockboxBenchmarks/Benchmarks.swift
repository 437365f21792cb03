// Lockbox beside the C program that does the same work on the same directory, in one run.
//
//     swift run -c release LockboxBenchmarks [DIRECTORY]
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
    static func main() throws {
        let place = CommandLine.arguments.dropFirst().first ?? FileManager.default.currentDirectoryPath
        let directory = "\(place)/lockbox-benchmark-\(UInt32.random(in: 0 ... .max))"
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let backend = EncryptedFileBackend(directory: directory)

        func fill(_ prefix: String, _ count: Int) throws -> Lockbox {
            let lockbox = try Lockbox(keyPrefix: prefix, backend: backend)
            for index in 0..<count { try lockbox.archiveObject(data, forKey: "key\(index)") }
            return lockbox
        }

        let data = Data((0..<256).map { UInt8($0) })
        let small = try fill("com.example.small", 1000)
        let session = Session()
        let json = try JSONEncoder().encode(session)
        try small.archiveObject(session, forKey: "session")
        guard let floor = floor_open(directory) else { exit(1) }
        var buffer = [UInt8](repeating: 0, count: 1 << 20)
        var format: CInt = 0
        var next = 0

        func key(_ count: Int) -> String {
            next = (next &+ 7919) % count
            return "key\(next)"
        }

        func readC(_ prefix: String, _ key: String) {
            precondition(floor_read(floor, prefix, key, &buffer, buffer.count, &format) > 0)
        }

        print("Lockbox beside C with libsodium, 256-byte values, in \(place)\n")
        print("| operation | Lockbox, median | C, median | ratio |\n|---|---:|---:|---:|")

        compare(
            "read Data", 20_000,
            { _ = try small.unarchiveObject(Data.self, forKey: key(1000)) },
            { readC("com.example.small", key(1000)) }
        )
        compare(
            "read a small Codable, against C and JSONDecoder", 20_000,
            { _ = try small.unarchiveObject(Session.self, forKey: "session") },
            {
                readC("com.example.small", "session")
                _ = try JSONDecoder().decode(Session.self, from: Data(bytes: buffer, count: json.count))
            }
        )
        compare(
            "durable write of Data", 2000,
            { try small.archiveObject(data, forKey: key(1000)) },
            { precondition(data.withUnsafeBytes { floor_write(floor, "com.example.small", key(1000), $0.baseAddress, $0.count, 1) } == 0) }
        )
        compare(
            "durable write of Data, against C without lock and look-ups", 2000,
            { try small.archiveObject(data, forKey: key(1000)) },
            { precondition(data.withUnsafeBytes { floor_write_bare(floor, "com.example.small", key(1000), $0.baseAddress, $0.count, 1) } == 0) }
        )
        compare(
            "durable write of a small Codable, against C and JSONEncoder", 2000,
            { try small.archiveObject(session, forKey: "session") },
            {
                let json = try JSONEncoder().encode(session)
                precondition(json.withUnsafeBytes { floor_write(floor, "com.example.small", "session", $0.baseAddress, $0.count, 2) } == 0)
            }
        )
        compare(
            "list 1,001 items", 100,
            { let all = try small.allAttributes()
                precondition(all.count == 1001) },
            {
                var bytes = 0
                precondition(floor_list(floor, "com.example.small", &bytes) == 1001)
            }
        )

        // Written by the C program, without the syncs that would take the better part of a minute.
        let large = try fill("com.example.large", 1)
        for index in 0..<100_000 {
            precondition(data.withUnsafeBytes { floor_write_unsynced(floor, "com.example.large", "key\(index)", $0.baseAddress, $0.count, 1) } == 0)
        }
        for index in 0..<100_000 { _ = try large.unarchiveObject(Data.self, forKey: "key\(index)") }  // into the cache
        compare(
            "read Data of 100,000 keys, against Lockbox with 1,000", 20_000,
            { _ = try large.unarchiveObject(Data.self, forKey: key(100_000)) },
            { _ = try small.unarchiveObject(Data.self, forKey: key(1000)) }
        )
        floor_close(floor)
    }
}
