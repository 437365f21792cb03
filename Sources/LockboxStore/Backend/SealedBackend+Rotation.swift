public import LockboxCore

extension SealedBackend {
    /// Creates a new device key, new unlock keys and new keys for every class, reseals every item with them, and removes
    /// the old keys. Use it when the device key, or a passcode that you have changed since, may have leaked.
    ///
    /// Copies of the keybag and the device key made before the call cannot open items written after it. Once resealing is
    /// complete, they cannot open any item in the store. The passcode and the other slots stay. Whoever has both an old copy
    /// of the files and its keys can still read what was in it, so replace those secrets themselves too.
    ///
    /// If another process begins a rotation meanwhile, the call completes that one too, because it may have been killed.
    ///
    /// Other processes can keep reading and writing, and those that have unlocked the store for themselves stay unlocked. An
    /// unlock for every process of the user stays in effect on this machine. On other machines that share the store it ends,
    /// because only this machine's kernel receives the new keys. Processes there must unlock again.
    ///
    /// Every call creates new keys. If it is interrupted, every item can be read, with an old key or a new one, and the next
    /// call reseals the rest too. File names, and the key they are derived with, do not change.
    ///
    /// An item that cannot be read for now, because of its permissions, a link or the disk, keeps the old keys, and so does a
    /// folder that cannot be listed. From then on, the old keys open these items alone. Repair or remove them, then call this
    /// again. A damaged item keeps no keys.
    ///
    /// - Parameters:
    ///   - newDeviceKey: The source of the new device key, if the key is or will be kept outside the store. This backend
    ///     uses it, and no earlier one, from then on. Other programs that use the store need both keys while this runs:
    ///     ``DeviceKeySource/anyOf(_:)``. If `nil`, a device key in the store is replaced by a random one, and one
    ///     that is kept elsewhere stays: see ``RotationReport/hasNewDeviceKey``.
    ///   - progress: Called after each batch of items.
    /// - Returns: The number of resealed items, the items that could not be read, and how many keep the old keys.
    /// - Throws: ``LockboxError/interactionNotAllowed(_:)`` if the store is locked, or if another process has
    ///   changed the passcode since it was unlocked. After any error, the call can be repeated.
    @discardableResult
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func rotateKeys(newDeviceKey: DeviceKeySource? = nil, progress: (StoreProgress) -> Void = { _ in })
        throws
        -> RotationReport
    {
        guard try keyStore.keyring(creating: false) != nil else { return RotationReport() }
        let hasNewDeviceKey = try makeNewKeys(newDeviceKey.map(DeviceKeyChange.replace) ?? .renew)
        return try completeRotation(hasNewDeviceKey, resealing: true, progress: progress)
    }

    /// Others who rotate at the same time may take the room that was made.
    private func makeNewKeys(_ change: DeviceKeyChange, rounds: Int = 8) throws -> Bool {
        for _ in 1..<rounds {
            try makeRoomForKeys()
            do { return try keyStore.rotateKeys(change) } catch let error as LockboxError
                where error.code == .slotRefused
            {}
        }
        return try keyStore.rotateKeys(change)
    }

    /// If many changes have left items for later, reseals them: a keybag has room for a limited number of keys.
    ///
    /// A store that is not yet what this program requires is left to the call that makes it so.
    func makeRoomForKeys() throws {
        do { try resealIfFull() } catch let error as LockboxError where error.code == .requirementNotMet {}
    }

    private func resealIfFull() throws {
        guard try keyStore.keyring(creating: false) != nil, try keyStore.current().keybag.isFull else {
            return
        }
        let report = try completeRotation(false, resealing: true) { _ in }
        guard try keyStore.current().keybag.isFull else { return }
        throw LockboxError.slotRefused(
            reason:
                "\(report.unrevokedCount) unreadable items still use earlier keys, and the keybag has no room for more; "
                + "repair or remove these items"
        )
    }

    /// Reseals after a change of the slots. The change has taken effect, so whatever prevents this is in the report.
    func resealAfterChange(_ hasNewDeviceKey: Bool, resealing: Bool, progress: (StoreProgress) -> Void)
        -> RotationReport
    {
        do { return try completeRotation(hasNewDeviceKey, resealing: resealing, progress: progress) } catch {
            var report = RotationReport(postponement: .failed, hasNewDeviceKey: hasNewDeviceKey)
            if let error = error as? LockboxError {
                let location = error.location ?? "items"
                report.unreadableItems = [
                    UnreadableItem(key: nil, record: location, location: location, error: error)
                ]
            }
            return report
        }
    }

    /// How often a rotation goes on with the work of another one that has overtaken it.
    private static var maximumRounds: Int { 8 }

    /// Reseals every item that is sealed with old keys, and removes the keys that no item needs any more.
    ///
    /// If another process begins another epoch meanwhile, its work is done here too: it may be killed.
    func completeRotation(_ hasNewDeviceKey: Bool, resealing: Bool, progress: (StoreProgress) -> Void) throws
        -> RotationReport
    {
        var report = RotationReport(hasNewDeviceKey: hasNewDeviceKey)
        if !resealing {
            report.postponement = .requested
            return report
        }
        for _ in 0..<Self.maximumRounds {
            let keyring = try keyStore.completeKeyring()
            var unreadable: ItemsByLocation = [:]
            try resealAll(keyring, &report.resealedCount, unreadable: &unreadable, progress: progress)
            let leftovers = try leftovers(keyring, &unreadable)
            guard try isCurrent(keyring) else { continue }
            report.unreadableItems = unreadable.values.sorted { $0.location < $1.location }
            report.unrevokedCount = leftovers.count
            guard leftovers.count <= Leftover.maximumCount else {
                report.postponement = .failed
                return report
            }
            // A commit that made an item use the new keys may not be durable yet.
            for namespace in try storage.namespaces() where keyring.owns(namespace: namespace) {
                try skippingIfUnusable(namespace, unreadable: { _ in }) { try storage.synchronize(namespace) }
            }
            // Does nothing if another epoch has begun since.
            try keyStore.finishRotation(of: keyring.epoch, leaving: leftovers)
            if try isCurrent(keyring) { return report }
        }
        report.postponement = .overtaken
        return report
    }

    private typealias ItemsByLocation = [String: UnreadableItem]

    /// Whether no other process has begun another epoch.
    private func isCurrent(_ keyring: Keyring) throws -> Bool {
        try keyStore.completeKeyring().epoch == keyring.epoch
    }

    private func resealAll(
        _ keyring: Keyring,
        _ resealed: inout Int,
        unreadable: inout ItemsByLocation,
        progress: (StoreProgress) -> Void
    ) throws {
        let namespaces = try allItems(keyring) { unreadable[$0.location] = $0 }
        let total = namespaces.reduce(0) { $0 + $1.count }
        var completed = 0
        for items in namespaces {
            // A transaction has room for so many. Otherwise, others get the lock in between.
            let limit = storage.limits.isTransactional ? storage.limits.maximumChanges : ItemOperation.batch
            let length = min(limit, 1000)
            for start in stride(from: 0, to: items.count, by: length) {
                let batch = items[start..<min(start + length, items.count)]
                try resealBatch(Array(batch), &resealed, unreadable: &unreadable)
                completed += batch.count
                progress(StoreProgress(completed: completed, total: total))
            }
        }
    }

    /// Returns what may still use the older keys. Looks at all items again, because removing a key too early loses its items.
    private func leftovers(_ keyring: Keyring, _ unreadable: inout ItemsByLocation) throws -> [Leftover] {
        var found: [String: [Leftover]] = [:]
        // Those of earlier rotations may be in a folder that cannot be listed.
        var earlier = Dictionary(grouping: keyring.leftovers, by: \.id)
        var unlisted: [String] = []
        for namespace in try storage.namespaces() where keyring.owns(namespace: namespace) {
            var leftovers: [Leftover] = []
            var listed: [SIMD16<UInt8>] = []
            let isListed: Void? = try skippingIfUnusable(
                namespace,
                unreadable: { unreadable[$0.location] = $0 }
            ) {
                try forEachRecord(in: namespace, waitingForCommits: true) { item in
                    if earlier[Leftover.start(of: item.id)] != nil {
                        listed.append(Leftover.start(of: item.id))
                    }
                    guard let (error, epochs) = try olderKeys(of: item, keyring) else { return }
                    let left = unresealed(item, error)
                    unreadable[left.location] = unreadable[left.location] ?? left
                    if let epochs { leftovers.append(Leftover(item.id, epochs)) }
                }
            }
            if isListed == nil {
                leftovers = whole(namespace, keyring)
                unlisted.append(namespace)
            } else {
                for id in listed { earlier[id] = nil }
            }
            found[namespace] = leftovers.isEmpty ? nil : leftovers
            earlier[Keyring.prefixID(ofNamespace: namespace).map(Leftover.start)!] = nil
        }
        for namespace in unlisted { found[namespace, default: []] += earlier.values.joined() }
        let all = Set(found.values.joined())
        if all.count > Leftover.maximumCount {
            return found.flatMap { namespace, leftovers in
                let location = storage.location(of: RecordName(namespace: namespace, name: ""))
                unreadable[location] = UnreadableItem(
                    key: nil,
                    record: namespace,
                    location: location,
                    error: .corrupt(record: location, reason: Self.tooManyLeftovers)
                )
                return whole(namespace, keyring, leftovers)
            }
        }
        return Array(all)
    }

    private static var tooManyLeftovers: String {
        "more than \(Leftover.maximumCount) of the store's items cannot be resealed, so any item in this folder may still be opened "
            + "with older keys"
    }

    /// All items of a namespace, with the epochs that some of them are known to need.
    private func whole(_ namespace: String, _ keyring: Keyring, _ known: [Leftover] = []) -> [Leftover] {
        let epochs = known.map(\.epochs) + [keyring.olderEpochs(of: nil, in: namespace)].compactMap { $0 }
        guard let id = Keyring.prefixID(ofNamespace: namespace), let first = epochs.map(\.lowerBound).min(),
            let last = epochs.map(\.upperBound).max()
        else { return [] }
        return [Leftover(id, first...last)]
    }

    private func unresealed(_ item: ItemRecord, _ error: LockboxError) -> UnreadableItem {
        let location = storage.location(of: item.name)
        return UnreadableItem(key: nil, record: item.name.path, location: location, error: error)
    }

    /// Returns why an item is not sealed with the new keys, and which older ones it may need: those that its header names, if
    /// its metadata opens with them; all, if it cannot be read for now; none, if it is damaged.
    private func olderKeys(of item: ItemRecord, _ keyring: Keyring) throws -> (
        error: LockboxError, epochs: ClosedRange<UInt32>?
    )? {
        let location = storage.location(of: item.name)
        var epoch: UInt32?
        do {
            epoch = try header(of: item)?.header.epoch
            // Nil also if it was removed after it was listed.
            guard epoch != keyring.epoch, try metadata(item, keyring) != nil, let epoch else { return nil }
            let error = LockboxError.corrupt(
                record: location,
                reason: "it is not sealed with the new keys"
            )
            return (error, epoch...epoch)
        } catch let error as LockboxError {
            if error.isOfWholeStore(notOf: location) { throw error }
            switch error.code {
            case .corrupt, .authenticationFailed, .rolledBack: return (error, nil)
            // Its metadata has been opened.
            case .requirementNotMet: return (error, epoch.map { $0...$0 })
            default: return (error, keyring.olderEpochs(of: item.id, in: item.name.namespace))
            }
        }
    }

    /// Reseals items together, or one by one if that fails, to learn which of them cannot be read.
    private func resealBatch(
        _ items: [ItemRecord],
        _ resealed: inout Int,
        unreadable: inout ItemsByLocation
    ) throws {
        do {
            resealed += try resealTogether(items)
        } catch let error as LockboxError {
            // The items may be sealed with the new keys, and be so no longer after a power cut: that would not show any more.
            if [.outcomeUnknown, .notReachable, .accessDenied].contains(error.code) { throw error }
            for item in items {
                do { resealed += try resealTogether([item]) } catch let error as LockboxError {
                    let found = unresealed(item, error)
                    // Each of the others would be waited for as long.
                    if error.code == .outcomeUnknown || error.isOfWholeStore(notOf: found.location) {
                        throw error
                    }
                    unreadable[found.location] = found
                }
            }
        }
    }

    /// Returns every item of the store. Waits for commits that may use the keybag from before the rotation;
    /// later ones use the new keys. So the list contains every item that is sealed with old keys.
    private func allItems(_ keyring: Keyring, unreadable: (UnreadableItem) throws -> Void) throws
        -> [ItemRecords]
    {
        try storage.namespaces().filter(keyring.owns).compactMap { namespace in
            try skippingIfUnusable(namespace, unreadable: unreadable) {
                try items(in: namespace, waitingForCommits: true)
            }
        }
    }
}

/// The result of a call that replaces the store's keys: ``SealedBackend``'s `rotateKeys`, and every change of a passcode
/// or another slot.
public struct RotationReport: StoreReport, Equatable {
    /// Why items were left for later. Whoever has the old keys can open them until the next `rotateKeys(newDeviceKey:)`.
    #if hasAttribute(nonexhaustive)
        @nonexhaustive
    #endif
    public enum Postponement: String, Sendable, Hashable, Codable, CaseIterable {
        /// The caller asked for it.
        case requested
        /// Other processes began one rotation after the other meanwhile.
        case overtaken
        /// An error ended the call after the new keys had taken effect.
        case failed
    }

    /// The number of items sealed with the new keys.
    public var resealedCount = 0

    /// The items that could not be read, and the prefixes whose folders could not be listed.
    public var unreadableItems: [UnreadableItem] = []

    /// The number of items that may still be sealed with the old keys, not counting postponed ones: those that cannot be read
    /// for now, or whose value is damaged. A folder that could not be listed counts as one. The old keys are kept, and open
    /// these items alone.
    public var unrevokedCount = 0

    /// Why items were left for later, or `nil` if none were.
    public var postponement: Postponement?

    /// Whether the store has a new device key. False if the key is kept elsewhere and no new one was given. Then whoever has
    /// the old key can still read names, attributes and the `always` classes.
    public var hasNewDeviceKey = false

    /// Whether items were left for later, for whatever reason.
    package var isPostponed: Bool { postponement != nil }

    /// The items that could not be read.
    public var findings: [StoreFinding] { unreadableItems.map(\.finding) }

    /// Whether every item is sealed with the new keys, or was left for later because the caller asked for it.
    public var isComplete: Bool {
        unreadableItems.isEmpty && (postponement == nil || postponement == .requested)
    }
}
