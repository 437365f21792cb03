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
        let place: SharedUnlock.Place
        let key: KernelKeyring.Serial
    }

    /// Finds the records that can open more keys, the one that opens most first. Makes one or two system calls,
    /// because it runs at every access.
    func find(for keyring: Keyring) -> some Sequence<Found> {
        keyring.unlockNames.lazy
            .filter { $0.place.level == .unlocked || !keyring.isOpen(.afterFirstUnlock) }
            .compactMap { place, name in
                kernel.serial(of: name).map { Found(place: place, key: $0) }
            }
    }

    /// The result of opening a record.
    enum Outcome {
        /// The keybag, with the keys that the record opens in addition to the open ones.
        case opened(OpenedKeybag)
        /// The record belongs to another passcode, or is damaged.
        case invalid
        /// The kernel did not return the record.
        case unread
    }

    func open(_ opened: OpenedKeybag, _ found: Found, device: SecretKey) throws -> Outcome {
        var record: SharedUnlock?
        let isRead: Bool? = try kernel.read(found.key, maximum: SharedUnlock.maximumLength) {
            record = try SharedUnlock($0, found.place.level, opened.keybag, device)
            return true
        }
        if isRead == nil { return .unread }
        guard let record else { return .invalid }
        switch found.place.level {
        case .unlocked:
            guard let key = record.keys.first?.key else { return .invalid }
            do {
                let keys = try opened.keybag.unwrap(with: WrappingKeys(device: device, passcode: key))
                return .opened(try opened.with(keys, passcodeKey: key))
            } catch is RecordError {
                return .invalid
            }
        case .afterFirstUnlock:
            let slots = Set(opened.keybag.entries.map(\.slot))
            let keys = opened.keyring.keys { _ in true }
            let added = record.keys.filter { entry in
                entry.slot.role.isOfAfterFirstUnlock && slots.contains(entry.slot)
                    && !keys.contains { $0.slot == entry.slot }
            }
            return .opened(try opened.with(keys + added, passcodeKey: nil))
        }
    }

    /// Adds the records of an unlocked keybag to the kernel, replacing older ones.
    ///
    /// - Parameters:
    ///   - keys: All keys of the keybag.
    ///   - deadline: See ``SharedUnlock/deadline``.
    /// - Returns: false if the kernel refuses. No record is then left in the kernel.
    func publish(
        _ keybag: Keybag,
        _ keys: [Keyring.Entry],
        passcodeKey: SecretKey,
        deadline: UInt64,
        device: SecretKey
    ) throws -> Bool {
        let records = SharedUnlock.Level.allCases.map { record($0, keys, passcodeKey, deadline) }
        for record in records where !add(record, keybag, device) {
            try remove(keybag.storeID)
            return false
        }
        return true
    }

    /// Returns the kernel's records for the current keybag. They are passed to
    /// ``republish(_:for:_:passcodeKey:device:)`` after the keybag has been replaced.
    func records(of keybag: Keybag, device: SecretKey) throws -> [SharedUnlock] {
        guard keybag.passcode != nil else { return [] }
        return try SharedUnlock.Level.allCases.compactMap { level in
            let place = SharedUnlock.Place(level: level, isOfNextKeybag: false)
            return try kernel.serial(of: place.name(keybag.storeID)).flatMap {
                try read($0, level, keybag, device)
            }
        }
    }

    /// Adds the next keybag's records before the keybag is replaced, so that a matching record exists at every
    /// instant.
    func announce(
        _ old: [SharedUnlock],
        for keybag: Keybag,
        _ keys: [Keyring.Entry],
        passcodeKey: SecretKey,
        device: SecretKey
    ) {
        for record in old {
            let new = self.record(record.level, keys, passcodeKey, record.deadline)
            _ = add(new, keybag, device, isOfNextKeybag: true)
        }
    }

    /// Replaces the records after the keybag has been replaced, keeping their deadlines. Removes all other
    /// records.
    func republish(
        _ old: [SharedUnlock],
        for keybag: Keybag,
        _ keys: [Keyring.Entry],
        passcodeKey: SecretKey?,
        device: SecretKey
    ) throws {
        for level in SharedUnlock.Level.allCases {
            if let record = old.first(where: { $0.level == level }), let passcodeKey,
                add(self.record(level, keys, passcodeKey, record.deadline), keybag, device)
            {
                continue
            }
            // Also if the kernel refuses the new record. The store is then locked for processes that have not
            // unlocked it themselves.
            try remove(keybag.storeID, [level])
        }
        for level in SharedUnlock.Level.allCases {
            try kernel.remove(SharedUnlock.Place(level: level, isOfNextKeybag: true).name(keybag.storeID))
        }
    }

    private func record(
        _ level: SharedUnlock.Level,
        _ keys: [Keyring.Entry],
        _ passcodeKey: SecretKey,
        _ deadline: UInt64
    ) -> SharedUnlock {
        switch level {
        case .unlocked:
            SharedUnlock(level: level, deadline: deadline, keys: [(SharedUnlock.passcodeSlot, passcodeKey)])
        case .afterFirstUnlock:
            SharedUnlock(level: level, deadline: 0, keys: keys.filter(\.slot.role.isOfAfterFirstUnlock))
        }
    }

    /// Removes records. If one cannot be removed, removes the others nevertheless.
    ///
    /// - Returns: Whether there were any.
    @discardableResult
    func remove(_ store: StoreID, _ levels: [SharedUnlock.Level] = SharedUnlock.Level.allCases) throws
        -> Bool
    {
        let places = SharedUnlock.Place.allCases.filter { levels.contains($0.level) }
        let results = places.map { place in Result { try kernel.remove(place.name(store)) } }
        return try results.map { try $0.get() }.contains(true)
    }

    /// In seconds since 1970, like ``SharedUnlock/deadline``.
    static func deadline(after timeout: Duration?) -> UInt64 {
        timeout.map { now + UInt64(max(1, $0.components.seconds)) } ?? 0
    }

    private static var now: UInt64 { UInt64(max(0, time(nil))) }

    private func add(
        _ record: SharedUnlock,
        _ keybag: Keybag,
        _ device: SecretKey,
        isOfNextKeybag: Bool = false
    ) -> Bool {
        var seconds: UInt32?
        if record.deadline > 0 {
            if record.deadline <= Self.now { return false }
            seconds = UInt32(clamping: record.deadline - Self.now)
        }
        return record.withRecord(keybag, device) {
            let place = SharedUnlock.Place(level: record.level, isOfNextKeybag: isOfNextKeybag)
            return kernel.add(place.name(keybag.storeID), $0, seconds: seconds)
        }
    }

    private func read(
        _ key: KernelKeyring.Serial,
        _ level: SharedUnlock.Level,
        _ keybag: Keybag,
        _ device: SecretKey
    ) throws -> SharedUnlock? {
        try kernel.read(key, maximum: SharedUnlock.maximumLength) {
            try SharedUnlock($0, level, keybag, device)
        }
    }
}

extension KeyRole {
    fileprivate var isOfAfterFirstUnlock: Bool {
        self == .classKey(.afterFirstUnlock) || self == .classKey(.afterFirstUnlockThisDeviceOnly)
    }
}
