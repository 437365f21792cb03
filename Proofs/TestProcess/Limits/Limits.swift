import Foundation

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// For Proofs/Limits/run: how long calls wait, and what they use up.
///
///     limits fill DIRECTORY PREFIX FIRST COUNT LIFETIME      items of 256 bytes, none synchronized; LIFETIME in seconds, or -
///     limits hold DIRECTORY PREFIX                           takes the lock, says so, and keeps it; -: the root's lock
///     limits write …                                         see LimitsWriters.swift
///     limits measure DIRECTORY PREFIX OPERATION [FILE]       see LimitsMemory.swift
func limits(_ arguments: [String]) throws {
    let numbers = arguments.map { Int($0) ?? 0 }
    switch (arguments.first, arguments.count) {
    case ("fill", 6):
        let expires = TimeInterval(arguments[5]).map { Date() + $0 }
        try fill(arguments[1], arguments[2], numbers[3]..<numbers[3] + numbers[4], expires: expires)
    case ("hold", 3): try hold(arguments[1], prefix: arguments[2] == "-" ? nil : arguments[2])
    case ("write", 9): try WriterProcess(arguments).run()
    case ("measure", 4...5):
        try measure(arguments[1], arguments[2], operation: arguments[3], file: arguments.dropFirst(4).first)
    default: exit(64)
    }
}

let limitsValue = Data((0..<256).map { UInt8($0) })

func backend(_ directory: String, _ calls: SystemCalls = SystemCalls(), timeout: Int) -> EncryptedFileBackend
{
    SealedBackend(
        storage: FileStorage(StoreLocation(directory), calls: calls, lockTimeout: .seconds(timeout))
    )
}

func seconds(_ duration: Duration) -> Double { duration / .seconds(1) }

/// A line of fields for the script.
func report(_ fields: Any...) {
    print(fields.map { "\($0)" }.joined(separator: "\t"))
    fflush(nil)
}

/// Runs `body` in threads of their own, as many as asked for: a pool has only as many as there are cores.
func inThreads(_ count: Int, _ body: @escaping @Sendable (Int) -> Void) {
    let group = DispatchGroup()
    for number in 0..<count {
        group.enter()
        Thread {
            body(number)
            group.leave()
        }.start()
    }
    group.wait()
}

/// Items whose keys are numbers. The first is archived, which makes the store and the folder; the others are sealed and
/// put there without lock, rename and synchronization, which would take hours for a million.
private func fill(_ directory: String, _ prefix: String, _ indices: Range<Int>, expires: Date?) throws {
    let backend = EncryptedFileBackend(directory: directory)
    try Lockbox(keyPrefix: prefix, backend: backend).archiveObject(
        limitsValue,
        forKey: "\(indices.lowerBound)",
        options: WriteOptions(expires: expires.map(Expiry.at) ?? .never)
    )
    let keyring = try backend.keyStore.currentKeyring()
    let namespace = keyring.namespace(ofPrefix: prefix)
    for index in indices.dropFirst() {
        let item = try StoredItem(
            key: ItemKey(prefix: prefix, key: "\(index)"),
            value: ArchivedValue(data: limitsValue, format: .data),
            modified: Date(),
            expires: expires
        )
        let id = keyring.itemID(item.key)
        let record = ItemRecord(name: RecordName(namespace: namespace, name: id.name), id: id)
        try create(
            backend.storage.location(of: record.name),
            backend.writer.seal(item, into: record, with: keyring)
        )
    }
}

private func create(_ path: String, _ bytes: [UInt8]) throws {
    let calls = SystemCalls()
    let current = SystemCalls.currentDirectory
    let opened = calls.open(path, at: current, O_WRONLY | O_CREAT | O_EXCL, mode: 0o600)
    let file = CInt(try check(opened, "open", path))
    defer { calls.close(file) }
    try bytes.withUnsafeBytes { try calls.writeAll($0, to: file, path: path) }
}

private func hold(_ directory: String, prefix: String?) throws {
    let backend = EncryptedFileBackend(directory: directory)
    let namespace = try prefix.map { try backend.keyStore.currentKeyring().namespace(ofPrefix: $0) }
    try backend.storage.holdingLock(of: namespace) {
        report("held")
        waitForEndOfInput()
    }
}
