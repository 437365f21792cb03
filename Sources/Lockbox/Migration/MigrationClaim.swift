@_spi(Extensions) package import LockboxCore
import LockboxPlatform
@_spi(Extensions) import LockboxStore

/// The exclusive right to run a migration, held by one thread of one process at a time: a lease on the migration's record.
///
/// If its holder shows no progress, that process was killed or stopped, and another one takes over.
final class MigrationClaim {
    /// The time without progress after which the claim can be taken over. The record shows progress four times in this time.
    @TaskLocal package static var patience: Duration = .seconds(5)

    /// The old keys of the items that were done when the claim was acquired.
    let done: Set<String>

    private let marker: ItemKey
    private let lease: Lease
    private let now: Date
    private var renewed = world.uptime

    /// Waits until no other process runs the migration.
    init(_ marker: ItemKey, _ backend: any LockboxBackend, now: Date) throws {
        (self.marker, self.now) = (marker, now)
        lease = Lease(
            marker,
            of: backend,
            accessibility: MigrationRecord.accessibility,
            takeover: Self.patience,
            record: MigrationRecord.name(marker)
        )
        let wait = LeaseWait()
        while true {
            let old = try backend.item(for: marker, now: nil)
            let record = try MigrationRecord(old?.value, marker)
            if case .taken = try lease.take(old, as: old ?? record.item(marker, now: now)) {
                done = record.done
                return
            }
            world.sleep(wait.pause)
        }
    }

    /// Shows that the holder is still working. Call it before each item is read and before each change.
    ///
    /// - Parameter isDue: Whether it must be shown now, and not four times in the time of patience.
    /// - Throws: ``LockboxError/conflict(record:)`` if another process has taken over.
    func renew(isDue: Bool = false) throws {
        guard isDue || world.uptime - renewed >= Self.patience / 4 else { return }
        try lease.renew()
        renewed = world.uptime
    }

    /// Receives the new items. A process that was stopped before it wrote them brings back none that others have removed.
    var destination: any LockboxBackend { lease.heldBackend }

    /// Releases the claim.
    ///
    /// - Parameter done: The old keys of the items that are done.
    func release(done: some Sequence<String> = []) throws {
        defer { lease.end() }
        try lease.change { item in
            var record = try MigrationRecord(item.value, marker)
            record.done.formUnion(done)
            return try record.item(marker, now: now)
        }
    }
}

/// The state of a migration: an item under a prefix that apps cannot use.
package struct MigrationRecord: ReservedRecord {
    package var version = 1
    /// The old keys of the items that are done. The source may have one of them again.
    package var done: Set<String> = []

    package init() {}

    package static func name(_ key: ItemKey) -> String {
        "the record of the migration \(String(reflecting: key.key))"
    }

    /// - Parameter machine: A hash of the machine whose old items it is about, or nil if the store is on one machine, or
    ///   the old items are where all machines have them.
    package static func key(ofMigration name: String, prefix: String, machine: String? = nil) throws
        -> ItemKey
    {
        if name.isEmpty { throw LockboxError.invalidKey(reason: "the migration's name is empty") }
        return try key(name, of: prefix, in: machine.map { "\0migration of \($0)\0" } ?? "\0migration\0")
    }

    /// Always readable, and left out of backups, because another machine has its own old items.
    static let accessibility = Accessibility.alwaysThisDeviceOnly

    func item(_ key: ItemKey, now: Date) throws -> StoredItem { try item(key, Self.accessibility, now: now) }
}

/// This machine, among those that share a storage.
enum Machine {
    /// Returns what the system calls this machine. Tests put another one in its place.
    @TaskLocal package static var identify: @Sendable () throws -> String = { try machineIdentifier() }

    /// 64 hexadecimal digits, the same as long as the system is not installed anew.
    ///
    /// A hash, because the identifier itself should not leave the machine.
    static func hash() throws -> String {
        Sodium.hash(of: Array("lockbox.machine\0\(try identify())".utf8)).hexadecimal
    }

    /// Reads an identifier of 32 hexadecimal digits from a file that contains nothing else, machine-id(5).
    static func identifier(inFile path: String, _ calls: SystemCalls = SystemCalls()) throws -> String {
        let file = CInt(try check(calls.open(path, at: SystemCalls.currentDirectory, O_RDONLY), "open", path))
        defer { calls.close(file) }
        var bytes = [UInt8](repeating: 0, count: 64)
        let count = try bytes.withUnsafeMutableBytes { try calls.readAll(file, into: $0, path: path) }
        let text = String(decoding: bytes[..<count], as: UTF8.self)
        let digits = text.hasSuffix("\n") ? text.dropLast() : text[...]
        guard digits.utf8.count == 32, digits.allSatisfy(\.isHexDigit) else {
            let reason = "it contains no machine ID; run systemd-machine-id-setup"
            throw LockboxError.corrupt(record: .other(path), reason: reason)
        }
        return String(digits)
    }
}

/// Finds out whether a source of a migration is in the same store as the new items. Two backends may be the same
/// store, opened separately: removing an old item from one would then remove the new one from the other.
///
/// Asks only once.
final class StoreIdentity {
    private let backend: any LockboxBackend
    private let now: Date
    private var answer: Bool?

    init(_ backend: any LockboxBackend, _ now: Date) { (self.backend, self.now) = (backend, now) }

    func isStore(of source: any SourceItems) throws -> Bool {
        if let answer { return answer }
        guard let source = source as? BackendItems else { return false }
        let isSame = try backend.isSameStore(as: source.backend, now: now)
        answer = isSame
        return isSame
    }
}

extension LockState {
    /// Throws the error that writing an item of this class would throw.
    package func check(_ accessibility: Accessibility) throws {
        switch self {
        case .unprotected:
            if accessibility == .whenPasscodeSetThisDeviceOnly { throw LockboxError.passcodeNotSet }
        case .unlocked: break
        case .locked: if accessibility.rank < 1 { throw LockboxError.interactionNotAllowed(accessibility) }
        case .beforeFirstUnlock:
            if accessibility.rank < 2 { throw LockboxError.interactionNotAllowed(accessibility) }
        }
    }
}

extension Accessibility {
    /// The longer a class stays open, the higher its rank.
    var rank: Int {
        switch self {
        case .whenUnlocked, .whenUnlockedThisDeviceOnly, .whenPasscodeSetThisDeviceOnly: 0
        case .afterFirstUnlock, .afterFirstUnlockThisDeviceOnly: 1
        case .always, .alwaysThisDeviceOnly: 2
        }
    }
}
