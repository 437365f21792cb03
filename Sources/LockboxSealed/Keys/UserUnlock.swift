import LockboxCore
import LockboxPlatform
import LockboxSodium

/// Keeps an unlock for every process of the user in the kernel's keyring.
///
/// There are two records: one opens all classes and is removed by a lock; the other keeps the
/// `afterFirstUnlock` classes open.
struct UserUnlock: Sendable {
    let kernel: KernelKeyring

    /// A record in the kernel. What a given serial opens never changes.
    struct Found: Equatable {
        let kind: SharedUnlock.KeyKind
        let key: KernelKeyring.Serial
    }

    /// Finds the records that can open more keys, the one that opens most first. Makes one or two system calls,
    /// because it runs at every access.
    func find(for keyring: Keyring) -> some Sequence<Found> {
        keyring.unlockNames.lazy
            .filter { $0.kind.level == .unlocked || !keyring.isOpen(.afterFirstUnlock) }
            .compactMap { kind, name in
                kernel.serial(of: name).map { Found(kind: kind, key: $0) }
            }
    }

    /// The result of opening a record.
    enum Outcome {
        /// The keybag, with the keys that the record opens in addition to the open ones, and its deadline.
        case opened(OpenedKeybag, deadline: UInt64)
        /// The record belongs to another keybag, is a copy, is over, or is damaged.
        case invalid
        /// The kernel did not return the record.
        case unread
    }

    func open(_ opened: OpenedKeybag, _ found: Found) throws -> Outcome {
        var record: SharedUnlock?
        let isRead: Bool? = try kernel.read(found.key, maximum: SharedUnlock.length) {
            record = try open($0, found, opened.keybag)
            return true
        }
        if isRead == nil { return .unread }
        guard let record else { return .invalid }
        do {
            return .opened(try opened.adding(record.level, record.key), deadline: record.deadline)
        } catch is RecordError {
            return .invalid
        }
    }

    private func open(_ bytes: UnsafeMutableRawBufferPointer, _ found: Found, _ keybag: Keybag) throws
        -> SharedUnlock?
    {
        try SharedUnlock(
            bytes,
            found.kind.level,
            found.key,
            keybag.storeID,
            keybag.deviceKey,
            now: Self.now
        )
    }

    /// Adds the records of an unlocked store to the kernel, replacing older ones.
    ///
    /// - Parameter deadline: See ``SharedUnlock/deadline``. It is that of the first record.
    /// - Returns: false if the kernel refuses. No record is then left in the kernel.
    func publish(_ keybag: Keybag, _ unlockKeys: [UnlockLevel: SecretKey], deadline: UInt64) throws -> Bool {
        for (level, key) in unlockKeys {
            let record = SharedUnlock(level: level, deadline: level == .unlocked ? deadline : 0, key: key)
            if add(record, keybag.storeID, keybag.deviceKey) { continue }
            try remove(keybag.storeID)
            return false
        }
        return true
    }

    /// A record that the kernel has.
    struct Published {
        let record: SharedUnlock
        let key: KernelKeyring.Serial
    }

    /// Returns the kernel's records for the current keybag. They are passed to ``republish(_:for:)`` after the keybag has
    /// been replaced.
    func records(of keybag: Keybag) throws -> [Published] {
        if keybag.slots.isEmpty { return [] }
        return try UnlockLevel.allCases.compactMap { level in
            let kind = SharedUnlock.KeyKind(level: level, isOfNextKeybag: false)
            guard let key = kernel.serial(of: kind.name(keybag.storeID)) else { return nil }
            return try kernel.read(key, maximum: SharedUnlock.length) {
                try open($0, Found(kind: kind, key: key), keybag).map { Published(record: $0, key: key) }
            }
        }
    }

    /// The keys of a keybag that replaces another one.
    struct NextKeys {
        let store: StoreID
        let device: SecretKey
        /// Empty if the keybag has no slots.
        let unlockKeys: [UnlockLevel: SecretKey]
    }

    /// Adds the next keybag's records before the keybag is replaced, so that a matching record exists at every
    /// instant.
    func announce(_ old: [Published], for next: NextKeys) {
        for old in old { _ = replace(old.record, next, isOfNextKeybag: true) }
    }

    /// Replaces the records after the keybag has been replaced, keeping their deadlines. Removes all others that do not open
    /// the next keybag. In a storage without locks, the store may have been locked or unlocked meanwhile, and stays so.
    func republish(_ old: [Published], for next: NextKeys) throws {
        try kernel.withLock {
            for level in UnlockLevel.allCases {
                let kind = SharedUnlock.KeyKind(level: level, isOfNextKeybag: false)
                let present = kernel.serial(of: kind.name(next.store))
                let old = old.first { $0.record.level == level && $0.key == present }
                if let old, replace(old.record, next) { continue }
                if let present, try opens(next, Found(kind: kind, key: present)) { continue }
                // Also if the kernel refuses the new record. The store is then locked for processes that have not
                // unlocked it themselves.
                try removeNow(next.store, [level])
            }
            for level in UnlockLevel.allCases {
                try kernel.remove(SharedUnlock.KeyKind(level: level, isOfNextKeybag: true).name(next.store))
            }
        }
    }

    private func opens(_ next: NextKeys, _ found: Found) throws -> Bool {
        let level = found.kind.level
        let record = try kernel.read(found.key, maximum: SharedUnlock.length) {
            try SharedUnlock($0, level, found.key, next.store, next.device, now: Self.now)
        }
        guard let key = next.unlockKeys[level], let record else { return false }
        return record.key.isEqual(to: key)
    }

    private func replace(_ record: SharedUnlock, _ next: NextKeys, isOfNextKeybag: Bool = false) -> Bool {
        guard let key = next.unlockKeys[record.level] else { return false }
        let record = SharedUnlock(level: record.level, deadline: record.deadline, key: key)
        return add(record, next.store, next.device, isOfNextKeybag: isOfNextKeybag)
    }

    /// Removes records. If one cannot be removed, removes the others nevertheless.
    ///
    /// - Parameter orThrow: See ``KernelKeyring/remove(_:orThrow:)``.
    /// - Returns: Whether there were any.
    @discardableResult
    func remove(_ store: StoreID, _ levels: [UnlockLevel] = UnlockLevel.allCases, orThrow: Bool = false)
        throws
        -> Bool
    {
        try kernel.withLock { try removeNow(store, levels, orThrow) }
    }

    @discardableResult
    private func removeNow(_ store: StoreID, _ levels: [UnlockLevel], _ orThrow: Bool = false) throws -> Bool
    {
        let kinds = SharedUnlock.KeyKind.allCases.filter { levels.contains($0.level) }
        let results = kinds.map { kind in Result { try kernel.remove(kind.name(store), orThrow: orThrow) } }
        return try results.map { try $0.get() }.contains(true)
    }

    /// In seconds since 1970, like ``SharedUnlock/deadline``.
    static func deadline(after timeout: Duration?) -> UInt64 {
        timeout.map { now + UInt64(max(1, $0.components.seconds)) } ?? 0
    }

    /// See ``SharedUnlock/deadline``.
    static func isOver(_ deadline: UInt64) -> Bool { deadline > 0 && deadline <= now }

    private static var now: UInt64 { UInt64(max(0, time(nil))) }

    private func add(
        _ record: SharedUnlock,
        _ store: StoreID,
        _ device: SecretKey,
        isOfNextKeybag: Bool = false
    ) -> Bool {
        var seconds: UInt32?
        if record.deadline > 0 {
            if record.deadline <= Self.now { return false }
            seconds = UInt32(clamping: record.deadline - Self.now)
        }
        let name = SharedUnlock.KeyKind(level: record.level, isOfNextKeybag: isOfNextKeybag).name(store)
        guard let key = kernel.make(name, length: SharedUnlock.length) else { return false }
        var bytes = record.encoded(key, store, device)
        defer { Sodium.wipe(&bytes) }
        return kernel.publish(key, bytes, seconds: seconds)
    }
}
