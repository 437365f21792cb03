import LockboxCore
import LockboxPlatform
import LockboxSodium

/// The unlock of a store for every process of the user, in the kernel's keyring.
///
/// Two records: one opens everything, and goes with the lock; the other keeps the `afterFirstUnlock` classes open.
struct UserUnlock: Sendable {
    let kernel: KernelKeyring

    /// A record that is there. As long as it is the same, so is what it opens.
    struct Found: Equatable {
        let place: SharedUnlock.Place
        let key: KernelKeyring.Serial
    }

    /// Those that can add to the keys that are open already, the one that opens most first. One or two calls of the
    /// kernel, as it is asked at every access.
    func find(for keyring: Keyring) -> some Sequence<Found> {
        keyring.unlockNames.lazy
            .filter { $0.place.level == .unlocked || !keyring.isOpen(.afterFirstUnlock) }
            .compactMap { place, name in
                kernel.serial(of: name).map { Found(place: place, key: $0) }
            }
    }

    /// What came of a record.
    enum Outcome {
        /// The keybag, with the keys that the record opens besides those that are open already.
        case opened(OpenedKeybag)
        /// It goes with another passcode, or is damaged.
        case invalid
        /// The kernel did not give it out.
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

    /// Puts the records of an unlocked keybag into the kernel, in place of older ones.
    ///
    /// - Parameters:
    ///   - keys: All keys of the keybag.
    ///   - deadline: As in ``SharedUnlock``.
    /// - Returns: false if the kernel refuses; then it holds none.
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

    /// What is in the kernel for a keybag as it is now, for ``republish(_:_:_:passcodeKey:device:)`` once it is another.
    func records(of keybag: Keybag, device: SecretKey) throws -> [SharedUnlock] {
        guard keybag.passcode != nil else { return [] }
        return try SharedUnlock.Level.allCases.compactMap { level in
            let place = SharedUnlock.Place(level: level, isOfNextKeybag: false)
            return try kernel.serial(of: place.name(keybag.storeID)).flatMap {
                try read($0, level, keybag, device)
            }
        }
    }

    /// Adds what is to replace the records of a keybag, before the keybag itself is replaced: so that at every instant there
    /// is a record that goes with it.
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

    /// Replaces the records of a keybag that has been rewritten, each up to the time that it had before; wipes what is
    /// none of them.
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
            // Also if the kernel refuses now: then this is locked for who has not unlocked it for itself.
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

    /// Wipes records; if one of them stays, the others all the same.
    ///
    /// - Returns: whether there were any.
    @discardableResult
    func remove(_ store: StoreID, _ levels: [SharedUnlock.Level] = SharedUnlock.Level.allCases) throws
        -> Bool
    {
        let places = SharedUnlock.Place.allCases.filter { levels.contains($0.level) }
        let results = places.map { place in Result { try kernel.remove(place.name(store)) } }
        return try results.map { try $0.get() }.contains(true)
    }

    /// In seconds since 1970, as the kernel itself counts.
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
