import CLinux
import LockboxCore
import LockboxPlatform

/// Keeps an unlock for every process of the user in the kernel's keyring.
///
/// There are two records: one opens all classes and is removed by a lock; the other keeps the
/// `afterFirstUnlock` classes open.
final class UserUnlock: Sendable {
    let kernel: KernelKeyring
    /// What the kernel's records open, because the kernel is asked at every access.
    let records = Protected<UserRecords?>(nil)

    init(kernel: KernelKeyring) { self.kernel = kernel }

    /// A record in the kernel. The keys that a given serial opens never change.
    struct Found: Equatable {
        let kind: SharedUnlock.KeyKind
        let key: KernelKeyring.Serial
    }

    /// Finds the records that can open more keys, the one that opens most first. Makes one or two system calls,
    /// because it runs at every access.
    func find(for keyring: Keyring) -> some Sequence<Found> {
        keyring.unlockNames.lazy
            .filter { $0.kind.level == .unlocked || !keyring.isOpen(.afterFirstUnlock) }
            .compactMap { [kernel] kind, name in
                kernel.serial(of: name).map { Found(kind: kind, key: $0) }
            }
    }

    /// Returns the keybag with the keys that the user has unlocked for every process, unless all are open anyway. Waits for no other
    /// process.
    ///
    /// - Parameters:
    ///   - isCurrent: Whether the keybag was just read, or found to be the current one.
    ///   - current: Reads the current one.
    ///   - accepts: Whether what a record has opened may be used.
    func unlocked(
        _ own: OpenedKeybag,
        isCurrent: Bool,
        current: () throws -> OpenedKeybag,
        accepts: (OpenedKeybag) -> Bool
    ) throws -> OpenedKeybag {
        if own.keyring.isComplete { return own }
        var seen: [UserUnlock.Found] = []
        while true {
            var (found, opened): ([UserUnlock.Found], OpenedKeybag?) = ([], nil)
            for record in find(for: own.keyring) {
                found.append(record)
                opened = try open(record, own, isCurrent: isCurrent && seen.isEmpty, current, accepts)
                if opened != nil { break }
            }
            // While another process rewrites the keybag, it replaces the records too, and the best one may have
            // been missed.
            if let opened, found.count == 1 || opened.keyring.isComplete { return opened }
            if found == seen {
                if opened == nil { forget() }
                return opened ?? own
            }
            seen = found
        }
    }

    /// Returns nil if the record opens nothing.
    private func open(
        _ record: Found,
        _ own: OpenedKeybag,
        isCurrent: Bool,
        _ current: () throws -> OpenedKeybag,
        _ accepts: (OpenedKeybag) -> Bool
    ) throws -> OpenedKeybag? {
        if let known = known(record, own.keyring) { return known.opened }
        var (own, found) = (own, isCurrent ? try outcome(of: record, own) : nil)
        if found?.opened == nil {
            // A new record may belong to a new keybag.
            own = try current()
            found = try outcome(of: record, own)
        }
        guard let found else { return nil }
        guard let opened = found.opened, accepts(opened) else {
            keep(.init(record: record), own.keyring)
            return nil
        }
        keep(found, own.keyring)
        return opened
    }

    /// The keybag that a record is known to open. Wipes the keys of a record whose time is over.
    private func known(_ record: Found, _ own: Keyring) -> UserRecords.Outcome? {
        records.withLock { records in
            guard records?.own === own else { return nil }
            records?.outcomes.removeAll { Self.isOver($0.deadline) }
            return records?.outcomes.first { $0.record == record }
        }
    }

    private func keep(_ outcome: UserRecords.Outcome, _ own: Keyring) {
        records.withLock { records in
            var new = records.flatMap { $0.own === own ? $0 : nil } ?? UserRecords(own: own)
            // Wipes the keys of the record used before.
            if outcome.opened != nil { new.outcomes.removeAll { $0.opened != nil } }
            new.outcomes.append(outcome)
            records = new
        }
    }

    /// Wipes the keys that the kernel's records have opened.
    func forget() {
        records.withLock { $0?.outcomes.removeAll { $0.opened != nil } }
    }

    /// Opens a record with the keybag. Returns nil if the kernel did not return the record.
    private func outcome(of found: Found, _ opened: OpenedKeybag) throws -> UserRecords.Outcome? {
        let (store, device) = (opened.keybag.storeID, opened.keybag.deviceKey)
        var isRead = false
        guard let record = try record(found, store, device, whenRead: { isRead = true }) else {
            return isRead ? UserRecords.Outcome(record: found) : nil
        }
        do {
            let opened = try opened.adding(record.level, record.key)
            return UserRecords.Outcome(record: found, opened: opened, deadline: record.deadline)
        } catch is RecordError {
            return UserRecords.Outcome(record: found)
        }
    }

    /// Returns nil if the record belongs to another keybag, is a copy, is over, or is damaged, or if the kernel does not return it.
    private func record(
        _ found: Found,
        _ store: StoreID,
        _ device: SecretKey,
        whenRead: () -> Void = {}
    ) throws -> SharedUnlock? {
        try kernel.read(found.key, maximum: SharedUnlock.length) {
            whenRead()
            return try SharedUnlock($0, found.kind.level, found.key, store, device, now: Self.now)
        }
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

    /// Returns the kernel's records that open the current keybag. They are passed to ``republish(_:for:)`` after the keybag has
    /// been replaced.
    func records(of keybag: Keybag) throws -> [Published] {
        if keybag.slots.isEmpty { return [] }
        return try UnlockLevel.allCases.compactMap { level in
            guard let found = present(level, keybag.storeID),
                let record = try record(found, keybag.storeID, keybag.deviceKey)
            else { return nil }
            // An attacker with the device key can make records, of keys that open nothing.
            do { _ = try keybag.open([level: record.key]) } catch RecordError.notAuthentic { return nil }
            return Published(record: record, key: found.key)
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
    /// instant. Not those that were removed since they were read: the store is locked.
    func announce(_ old: [Published], for next: NextKeys) {
        kernel.withLock {
            for old in old where old.key == present(old.record.level, next.store)?.key {
                _ = replace(old.record, next, isOfNextKeybag: true)
            }
        }
    }

    private func present(_ level: UnlockLevel, _ store: StoreID) -> Found? {
        let kind = SharedUnlock.KeyKind(level: level, isOfNextKeybag: false)
        return kernel.serial(of: kind.name(store)).map { Found(kind: kind, key: $0) }
    }

    /// Replaces the records after the keybag has been replaced, keeping their deadlines. Removes all others that do not open
    /// the next keybag. In a storage without locks, the store may have been locked or unlocked meanwhile, and stays so.
    func republish(_ old: [Published], for next: NextKeys) throws {
        try kernel.withLock {
            for level in UnlockLevel.allCases {
                let present = present(level, next.store)
                let old = old.first { $0.record.level == level && $0.key == present?.key }
                if let old, replace(old.record, next) { continue }
                if let present, try opens(next, present) { continue }
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
        guard let key = next.unlockKeys[found.kind.level],
            let record = try record(found, next.store, next.device)
        else { return false }
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

    private static var now: UInt64 { UInt64(max(0, world.date.timeIntervalSince1970)) }

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

/// The processes for which a store is unlocked.
///
/// Minor versions may add cases.
#if hasAttribute(nonexhaustive)
    @nonexhaustive
#endif
public enum UnlockScope: String, Sendable, Hashable, Codable, CaseIterable {
    /// One backend in this process, until it locks or the process ends.
    case process
    /// Every process of the user, with keys in the Linux kernel, until one of them locks, the timeout passes,
    /// or the machine restarts.
    case user
}

/// Caches what the kernel's records open with a given keyring, because the kernel is asked at every access.
struct UserRecords {
    let own: Keyring
    var outcomes: [Outcome] = []

    struct Outcome {
        let record: UserUnlock.Found
        /// The keybag, with the keys that the record opens in addition to the open ones, or nil for a record that opens nothing:
        /// it belongs to another keybag, is a copy, is over, or is damaged.
        var opened: OpenedKeybag?
        /// The kernel may keep a record longer: another process can change its time there.
        var deadline: UInt64 = 0
    }
}

/// The user's keyring in the Linux kernel, user-keyring(7): named secrets in kernel memory, available to every
/// process of the user. On other systems, and where a sandbox blocks the system calls, it is empty and accepts
/// no keys.
struct KernelKeyring: Sendable {
    /// The kernel's ID of a key. Adding a key again gives it a new one.
    typealias Serial = Int32

    /// For tests, called before every system call, once for a lock that is waited for: if it returns an error code, the call
    /// fails with it.
    var fault: (@Sendable () -> CInt?)?

    /// `KEY_POS_ALL | KEY_USR_ALL`: the user's processes may do everything, others nothing.
    private static let permissions: UInt32 = 0x3F3F_0000
    static let maximumLength = 32_767  // keyctl(2), keys of the type "user"

    func serial(of name: String) -> Serial? {
        let result = call { world.findKey(name) }
        return result > 0 ? Serial(result) : nil
    }

    /// Adds a key, replacing one of the same name. Returns false if the kernel refuses.
    func add(_ name: String, _ bytes: [UInt8], seconds: UInt32?) -> Bool {
        guard let key = make(name, length: bytes.count) else { return false }
        return publish(key, bytes, seconds: seconds)
    }

    /// Makes a key that this process alone sees, until ``publish(_:_:seconds:)``. Returns nil if the kernel refuses.
    func make(_ name: String, length: Int) -> Serial? {
        let result = call { world.addKey(name, length: length) }
        return result > 0 ? Serial(result) : nil
    }

    /// Gives a key to the user's processes, in the place of one of the same name. It appears complete, including its timeout, or
    /// not at all.
    ///
    /// - Returns: false if the kernel refuses. The key is then gone.
    func publish(_ key: Serial, _ bytes: [UInt8], seconds: UInt32?) -> Bool {
        defer { _ = call { world.withdrawKey(key) } }
        if call({ bytes.withUnsafeBytes { world.updateKey(key, $0) } }) < 0 { return false }
        if call({ world.setKeyPermissions(key, Self.permissions) }) < 0 { return false }
        if let seconds, call({ world.setKeyTimeout(key, seconds: seconds) }) < 0 { return false }
        return call { world.publishKey(key) } == 0
    }

    /// Reads a key into memory that is wiped afterwards. Returns nil if the key is gone or longer than
    /// `maximum`.
    func read<Result>(
        _ key: Serial,
        maximum: Int,
        _ body: (UnsafeMutableRawBufferPointer) throws -> Result?
    ) rethrows -> Result? {
        try withUnsafeTemporaryAllocation(byteCount: maximum, alignment: 8) { buffer in
            defer { Sodium.wipe(buffer) }
            let length = call { world.readKey(key, into: buffer) }
            // If the key is longer than the buffer, the kernel returns its full length.
            guard length >= 0, length <= buffer.count else { return nil }
            return try body(buffer.part(..<length))
        }
    }

    /// Removes a key. Returns false if there is none.
    ///
    /// - Parameter orThrow: Whether it is an error if the kernel does not say whether there is one. Not where it has no keyring.
    @discardableResult
    func remove(_ name: String, orThrow: Bool = false) throws -> Bool {
        let found = call { world.findKey(name) }
        guard found > 0 else {
            if !orThrow || kernel_key_is_gone(found) != 0 || found == -Int(ENOSYS) { return false }
            throw LockboxError.storageFailure(operation: "keyctl", path: .other(name), errno: CInt(-found))
        }
        let key = Serial(found)
        // Revoked first: from then on it cannot be read, even if it is linked elsewhere.
        let result = call { world.revokeKey(key) }
        _ = call { world.unlinkKey(key) }
        // Another process may have removed it first.
        if kernel_key_is_gone(result) == 0, serial(of: name) != nil {
            throw LockboxError.storageFailure(operation: "keyctl", path: .other(name), errno: CInt(-result))
        }
        return true
    }

    /// Lets the user's programs read a key and write it anew one after the other. Gives up after `patience`, as any user
    /// of the machine can take this lock, and runs `body` without it.
    func withLock<Result>(patience: Duration = .milliseconds(100), _ body: () throws -> Result) rethrows
        -> Result
    {
        let end = world.uptime + patience
        var lock = call { world.lockKeys() }
        while lock == -Int(EWOULDBLOCK), world.uptime < end {
            world.sleep(.milliseconds(1))
            lock = world.lockKeys()
        }
        defer { if lock >= 0 { _ = world.close(CInt(lock)) } }
        return try body()
    }

    private func call(_ body: () -> Int) -> Int {
        if let errno = fault?() { return -Int(errno) }
        return body()
    }
}
