// At its start, an app brings along what its version with Lockbox 2 has stored.
//
//     swift run MigrateFromV2 prepare      makes a store as Lockbox 2 would have left it
//     swift run MigrateFromV2 dry-run      says what a migration would do
//     swift run MigrateFromV2              migrates, and says what was done; run again, it does nothing
//     swift run MigrateFromV2 show         shows what is there, in which form

import Foundation
import Lockbox

/// The whole use of Lockbox: a list of what there was, and one call.
let migration = Migration(
    "from Lockbox 2",
    .string("token", accessibility: .afterFirstUnlock),
    .array("recent searches", to: "searches"),
    .set("muted"),
    .dictionary("headers"),
    .date("last login"),
    .array("tags"),
    .string("nickname")
)

/// Lockbox 2's bytes. One of its values cannot be read back for certain: `tags` is either `["a-|", "b"]` or
/// `["a", "|-b"]`.
let legacy = [
    "token": "t0ken",
    "recent searches": "swift-|-linux keychain",
    "muted": "bob-|-carol",
    "headers": "Accept-|-X-Key-|-text/plain-|-42",
    "last login": "801234567.890625",
    "tags": "a-|-|-b",
]

func prepare(_ lockbox: Lockbox) throws {
    for (key, text) in legacy {
        let changes = ItemChanges(
            value: try ArchivedValue(data: Data(text.utf8), format: .lockbox2),
            options: WriteOptions(policy: .addOnly),
            modified: Date(timeIntervalSinceReferenceDate: 0)
        )
        try lockbox.backend.write(changes, to: ItemKey(prefix: lockbox.keyPrefix, key: key))
    }
}

func show(_ lockbox: Lockbox) throws {
    for (key, attributes) in try lockbox.list().items.sorted(by: { $0.key < $1.key }) {
        print("\(key): \(attributes.format), \(attributes.accessibility)")
    }
}

do {
    let lockbox = try Lockbox(keyPrefix: "com.example.migrate-from-v2")
    switch CommandLine.arguments.dropFirst().first {
    case "prepare": try prepare(lockbox)
    case "dry-run": print(try lockbox.migrate(migration, dryRun: true))
    case "show": try show(lockbox)
    default: print(try lockbox.migrate(migration))
    }
} catch {
    FileHandle.standardError.write(Data("MigrateFromV2: \(error)\n".utf8))
    exit(1)
}
