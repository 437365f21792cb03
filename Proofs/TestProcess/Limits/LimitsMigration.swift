import Foundation

@testable import Lockbox
@testable import LockboxCore
import LockboxImport
@testable import LockboxStore

/// `limits migrate`: migrates every entry of FOLDER/source, or as many items of Lockbox 2 in memory, and answers with the number
/// of those that were migrated, the seconds of the processor that this took, and the most memory that this process has ever
/// had, in KiB.
func migrate(_ format: String, _ count: Int, into destination: String, _ folder: String) throws {
    let (source, items) = try source(format, (0..<count).map(name), "\(folder)/source")
    let backend: any LockboxBackend =
        destination == "memory" ? InMemoryBackend() : EncryptedFileBackend(directory: "\(folder)/store")
    let lockbox = try Lockbox(keyPrefix: "p", backend: backend)
    let migration = Migration("m", from: source, items: items)
    let before = try Usage()
    let report = try lockbox.migrate(migration)
    let after = try Usage()
    try require(source.keys(for: lockbox).isEmpty, "not every entry was removed")
    let migrated = report.outcomes.count { $0.outcome == .migrated }
    LockboxTestProcess.report(
        migrated,
        Double(after.microseconds - before.microseconds) / 1e6,
        try peakMemory()
    )
}

/// Four letters, as in migration.py: a file has at most 16 MiB.
private func name(_ number: Int) -> String {
    let letters = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
    return String([140_608, 2704, 52, 1].map { letters[number / $0 % 52] })
}

private func source(_ format: String, _ names: [String], _ path: String) throws
    -> (MigrationSource, [Migration.Item])
{
    switch format {
    case "environment": return (.environmentFile(at: path), names.map { .string($0) })
    case "json": return (.json(at: path), names.map { .string($0) })
    case "propertyList": return (.propertyList(at: path), names.map { .string($0) })
    case "netrc":
        return (.netrc(at: path), names.map { .value("l@\($0)", as: [String: String].self) })
    case "lockbox2":
        let old = InMemoryBackend()
        for name in names {
            let item = try StoredItem(
                key: ItemKey(prefix: "old", key: name),
                value: ArchivedValue(data: Data("v".utf8), format: .lockbox2),
                modified: Date()
            )
            try old.write(item, policy: .addOnly)
        }
        return (.backend(old, keyPrefix: "old"), names.map { .string($0) })
    default: throw Violation(description: "there is no format \(format)")
    }
}
