import Foundation

import Lockbox
@testable import LockboxCore
@testable import LockboxFiles
@testable import LockboxMigration
@testable import LockboxSealed
@testable import LockboxSodium

/// Single writes and removals, and removals of many items, for Tests/KillMatrix/run and Tests/PowerCut/run.
let killableWrites: [KillableOperation] = [
    KillableOperation(
        "first write",
        prepare: { _ in },
        mode: { _ in ["put", "short"] },
        inspect: { try inspectWrite($0, old: nil, new: "short", beside: []) }
    ),
    KillableOperation(
        "write",
        prepare: { try $0.prepare(neighbours(), passcode: nil) },
        mode: { _ in ["put", "short"] },
        inspect: { try inspectWrite($0, old: nil, new: "short", beside: neighbours()) }
    ),
    KillableOperation(
        "replace",
        prepare: { try $0.prepare(neighbours() + [written("short")], passcode: nil) },
        mode: { _ in ["put", "other"] },
        inspect: { try inspectWrite($0, old: "short", new: "other", beside: neighbours()) }
    ),
    KillableOperation(
        "replace, 50 kB",
        prepare: { try $0.prepare(neighbours() + [written("long")], passcode: nil) },
        mode: { _ in ["put", "other long"] },
        inspect: { try inspectWrite($0, old: "long", new: "other long", beside: neighbours()) }
    ),
    KillableOperation(
        "remove",
        prepare: { try $0.prepare(neighbours() + [written("short")], passcode: nil) },
        mode: { _ in ["take"] },
        inspect: { try inspectWrite($0, old: "short", new: nil, beside: neighbours()) }
    ),
    KillableOperation(
        "removeAll",
        prepare: { try $0.prepare(neighbours() + batch(expires: nil), passcode: nil) },
        mode: { _ in ["removeAll"] },
        inspect: { try inspectBatch($0, batch(expires: nil), beside: neighbours(but: prefixes[0])) },
        isOfWholePrefix: true
    ),
    KillableOperation(
        "removeExpired",
        prepare: { try $0.prepare(neighbours() + batch(expires: .distantPast), passcode: nil) },
        mode: { _ in ["removeExpired"] },
        inspect: { try inspectBatch($0, batch(expires: .distantPast), beside: neighbours()) }
    ),
]

/// The operations' own modes.
func runWrite(_ mode: String, _ arguments: [String], _ backend: EncryptedFileBackend) throws {
    switch (mode, arguments.count) {
    case ("put", 1): try backend.write(written(arguments[0]), policy: .replace)
    case ("take", 0): try backend.remove(ItemKey(prefix: prefixes[0], key: "written"))
    case ("removeAll", 0): try backend.removeAll(prefix: prefixes[0])
    case ("removeExpired", 0): try backend.removeExpired(prefix: prefixes[0], now: Date())
    default: try runMigration(mode, arguments, backend)
    }
}

/// A short value fits into btrfs's metadata, a long one gets blocks of its own.
private func written(_ text: String) throws -> StoredItem {
    let times = text.hasSuffix("long") ? 50_000 / text.utf8.count : 1
    return try fixture("written", prefixes[0], .always, text: String(repeating: text, count: times))
}

/// What the operation must not touch: an item in its own prefix, and some in another.
private func neighbours(but prefix: String? = nil) throws -> [StoredItem] {
    try [
        fixture("neighbour", prefixes[0], .afterFirstUnlock),
        fixture("dk", prefixes[1], .always),
        fixture("ck", prefixes[1], .whenUnlocked),
    ].filter { $0.key.prefix != prefix }
}

private func batch(expires: Date?) throws -> [StoredItem] {
    try (0..<36).map { try fixture("batch \($0)", prefixes[0], .afterFirstUnlock, expires: expires) }
}

private func inspectWrite(
    _ folder: Folder,
    old: String?,
    new: String?,
    beside others: [StoredItem]
) throws -> KillableOperation.State {
    let backend = try folder.open([nil]).backend
    let key = try ItemKey(prefix: prefixes[0], key: "written")
    let found = try backend.item(for: key, now: nil)
    let (before, after) = (try old.map(written), try new.map(written))
    try require(found == before || found == after, "the value is neither the old one nor the new one")
    try backend.requireExactly(others + [found].compactMap(\.self))
    return found == after ? .new : .old
}

private func inspectBatch(
    _ folder: Folder,
    _ batch: [StoredItem],
    beside others: [StoredItem]
) throws -> KillableOperation.State {
    let backend = try folder.open([nil]).backend
    let found = try backend.everything()
    // With all the others of the prefix, where the operation removes them, too.
    let removable =
        try neighbours().filter { item in !others.contains { $0.key == item.key } } + batch
    let left = removable.filter { found[$0.key] != nil }
    try backend.requireExactly(others + left)
    return left.isEmpty ? .new : left.count < removable.count ? .between : .old
}
