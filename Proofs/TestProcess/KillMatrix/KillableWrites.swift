import Foundation

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// Single writes and removals, and removals of many items, for Proofs/KillMatrix/run and Proofs/PowerCut/run.
let killableWrites: [KillableOperation] = [
    KillableOperation(
        "first write",
        prepare: { _ in },
        mode: { _ in ["put", "short"] },
        inspect: { try inspectWrite($0, old: nil, new: "short", beside: []) }
    ),
    KillableOperation(
        "write",
        prepare: { try $0.prepare(neighbors(), passcode: nil) },
        mode: { _ in ["put", "short"] },
        inspect: { try inspectWrite($0, old: nil, new: "short", beside: neighbors()) }
    ),
    KillableOperation(
        "replace",
        prepare: { try $0.prepare(neighbors() + [written("short")], passcode: nil) },
        mode: { _ in ["put", "other"] },
        inspect: { try inspectWrite($0, old: "short", new: "other", beside: neighbors()) }
    ),
    KillableOperation(
        "replace, 50 kB",
        prepare: { try $0.prepare(neighbors() + [written("long")], passcode: nil) },
        mode: { _ in ["put", "other long"] },
        inspect: { try inspectWrite($0, old: "long", new: "other long", beside: neighbors()) }
    ),
    KillableOperation(
        "remove",
        prepare: { try $0.prepare(neighbors() + [written("short")], passcode: nil) },
        mode: { _ in ["take"] },
        inspect: { try inspectWrite($0, old: "short", new: nil, beside: neighbors()) }
    ),
    KillableOperation(
        "removeAll",
        prepare: { try $0.prepare(neighbors() + batch(expires: nil), passcode: nil) },
        mode: { _ in ["removeAll"] },
        inspect: { try inspectBatch($0, batch(expires: nil), beside: neighbors(but: prefixes[0])) }
    ),
    KillableOperation(
        "removeExpired",
        prepare: { try $0.prepare(neighbors() + batch(expires: .distantPast), passcode: nil) },
        mode: { _ in ["removeExpired"] },
        inspect: { try inspectBatch($0, batch(expires: .distantPast), beside: neighbors()) }
    ),
    KillableOperation(
        "batch",
        prepare: { try $0.prepare(neighbors() + batch(expires: nil).prefix(24), passcode: nil) },
        mode: { _ in ["batch"] },
        inspect: inspectMixedBatch
    ),
    KillableOperation(
        "moveObject",
        prepare: { try $0.prepare(neighbors() + [written("short")], passcode: nil) },
        mode: { _ in ["moveObject"] },
        inspect: inspectMove
    ),
]

/// The operations' own modes.
func runWrite(_ mode: String, _ arguments: [String], _ backend: EncryptedFileBackend) throws {
    switch (mode, arguments.count) {
    case ("put", 1): try backend.write(written(arguments[0]), policy: .replace)
    case ("take", 0): try backend.remove(ItemKey(prefix: prefixes[0], key: "written"))
    case ("removeAll", 0): try backend.removeAll(prefix: prefixes[0])
    case ("batch", 0): try backend.apply(mixedBatch())
    case ("moveObject", 0):
        // Run again, it may have been done.
        do {
            try backend.move(written("short").key, to: movedKey(), policy: .addOnly, now: Date())
        } catch LockboxError.itemNotFound {}
    case ("removeExpired", 0): try backend.removeExpired(prefix: prefixes[0], now: Date())
    default: try runMigration(mode, arguments, backend)
    }
}

/// A short value fits into btrfs's metadata, a long one gets blocks of its own.
private func written(_ text: String) throws -> StoredItem {
    let times = text.hasSuffix("long") ? 50_000 / text.utf8.count : 1
    return try fixture("written", prefixes[0], .always, text: String(repeating: text, count: times))
}

/// The items that the operation must not touch: an item in its own prefix, and some in another.
private func neighbors(but prefix: String? = nil) throws -> [StoredItem] {
    try [
        fixture("neighbor", prefixes[0], .afterFirstUnlock),
        fixture("dk", prefixes[1], .always),
        fixture("ck", prefixes[1], .whenUnlocked),
    ].filter { $0.key.prefix != prefix }
}

private func batch(expires: Date?) throws -> [StoredItem] {
    try (0..<36).map { try fixture("batch \($0)", prefixes[0], .afterFirstUnlock, expires: expires) }
}

/// Twelve of each: replaced, removed, and new.
private func mixedBatch() throws -> [ItemOperation] {
    try batch(expires: nil).enumerated().map { number, item in
        (12..<24).contains(number) ? .remove(item.key) : .write(try ItemChanges(replaced(item)), to: item.key)
    }
}

private func replaced(_ item: StoredItem) throws -> StoredItem {
    try fixture(item.key.key, prefixes[0], .afterFirstUnlock, text: "replaced")
}

/// Each item as before or as after, independently of the others.
private func inspectMixedBatch(_ folder: Folder) throws -> KillableOperation.State {
    let backend = try folder.open([nil]).backend
    var (done, left): (Int, [StoredItem]) = (0, [])
    for (number, item) in try batch(expires: nil).enumerated() {
        let found = try backend.item(for: item.key, now: nil)
        let before = number < 24 ? item : nil
        let after = (12..<24).contains(number) ? nil : try replaced(item)
        try require(found == before || found == after, "item \(number) is neither as before nor as after")
        if found == after { done += 1 }
        left += [found].compactMap(\.self)
    }
    try backend.requireExactly(neighbors() + left)
    return done == 36 ? .new : done == 0 ? .old : .between
}

private func movedKey() throws -> ItemKey { try ItemKey(prefix: prefixes[1], key: "moved") }

/// Under its old key, its new one, or both.
private func inspectMove(_ folder: Folder) throws -> KillableOperation.State {
    let backend = try folder.open([nil]).backend
    let old = try written("short")
    let new = StoredItem(key: try movedKey(), value: old.value, checked: old.attributes)
    let places = try [old, new].filter { try backend.item(for: $0.key, now: nil) != nil }
    try require(!places.isEmpty, "the item is in neither place")
    try backend.requireExactly(neighbors() + places)
    return places == [old] ? .old : places == [new] ? .new : .between
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
        try neighbors().filter { item in !others.contains { $0.key == item.key } } + batch
    let left = removable.filter { found[$0.key] != nil }
    try backend.requireExactly(others + left)
    return left.isEmpty ? .new : left.count < removable.count ? .between : .old
}
