public import LockboxCore
import LockboxPlatform

extension SealedBackend {
    /// Creates a new device key, new unlock keys and new keys for every class, reseals every item with them, and removes
    /// the old keys. Use it when the device key, or a passcode that you have changed since, may have leaked.
    ///
    /// Copies of the keybag and the device key made before the call cannot open items written after it. Once resealing is
    /// complete, they cannot open any item in the store. The passcode and the other slots stay. An attacker with both an old
    /// copy of the files and its keys can still read what was in it, so replace those secrets themselves too.
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
    /// Before it reseals anything, the call writes down which items there are. From then on, the old keys open these very bytes, and
    /// nothing that comes later. An item that cannot be read just then, because of its permissions, a link or the disk, or because
    /// its folder cannot be listed, is not among them: repair it, and accept it by name (``acceptItem(record:)``). The old keys stay
    /// until then, or until it is removed. A damaged item keeps no keys.
    ///
    /// - Parameters:
    ///   - newDeviceKey: The source of the new device key, if the key is or will be kept outside the store. This backend
    ///     uses it, and no earlier one, from then on. Other programs that use the store need both keys while this runs:
    ///     ``DeviceKeySource/anyOf(_:)``. If `nil`, a device key in the store is replaced by a random one, and one
    ///     that is kept elsewhere stays: see ``RotationReport/hasNewDeviceKey``.
    ///   - progress: Called after each batch of items.
    /// - Returns: The number of resealed items, the items that could not be read, and how many the old keys are kept for. Also the
    ///   error that ended the call after the new keys had taken effect, if one did: see ``RotationReport/Postponement/failed``.
    /// - Throws: ``LockboxError/interactionNotAllowed(_:)`` if the store is locked, or if another process has
    ///   changed the passcode since it was unlocked; ``LockboxError/storeNotFound(location:)``. The keys are those from before then,
    ///   unless the error is ``LockboxError/outcomeUnknown(record:reason:wasMade:)``: the call had begun to replace them.
    @discardableResult
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func rotateKeys(newDeviceKey: DeviceKeySource? = nil, progress: (StoreProgress) -> Void = { _ in })
        throws
        -> RotationReport
    {
        guard try keyStore.keyring(creating: false) != nil else { throw keyStore.storeIsNotFound }
        let hasNewDeviceKey = try makeNewKeys(newDeviceKey.map(DeviceKeyChange.replace) ?? .renew)
        return resealAfterChange(hasNewDeviceKey, resealing: true, progress: progress)
    }

    /// Others who rotate at the same time may take the room that was made.
    private func makeNewKeys(_ change: DeviceKeyChange, rounds: Int = 8) throws -> Bool {
        for _ in 1..<rounds {
            try makeRoomForKeys()
            do { return try keyChanges.rotateKeys(change) } catch let error as LockboxError
                where error.code == .slotRefused
            {}
        }
        return try keyChanges.rotateKeys(change)
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

    /// Reseals after a change of the keys. The change has taken effect, so whatever prevents this is in the report.
    func resealAfterChange(_ hasNewDeviceKey: Bool, resealing: Bool, progress: (StoreProgress) -> Void)
        -> RotationReport
    {
        do { return try completeRotation(hasNewDeviceKey, resealing: resealing, progress: progress) } catch {
            var report = RotationReport(postponement: .failed, hasNewDeviceKey: hasNewDeviceKey)
            if let error = error as? LockboxError {
                let location = error.subject?.description ?? "items"
                report.unreadableItems = [
                    UnreadableItem(key: nil, record: location, location: location, error: error)
                ]
            }
            return report
        }
    }

    /// How often a rotation goes on with the work of another one that has overtaken it.
    private static var maximumRounds: Int { 8 }

    /// Closes the older epochs, reseals every item that is sealed with their keys, and removes the keys that no item needs any more.
    ///
    /// If another process begins another epoch meanwhile, its work is done here too: it may be killed.
    func completeRotation(_ hasNewDeviceKey: Bool, resealing: Bool, progress: (StoreProgress) -> Void) throws
        -> RotationReport
    {
        var report = RotationReport(hasNewDeviceKey: hasNewDeviceKey)
        for _ in 0..<Self.maximumRounds {
            let epoch = try keyChanges.completeKeyring().epoch
            var unreadable: ItemsByLocation = [:]
            // The items that are there now open until they are resealed. Later ones, under keys that others may have, do not.
            var old = try closeOlderEpochs(than: epoch, OldItems(), &report.resealedCount, &unreadable)
            if resealing, let left = old, left.count > 0 {
                unreadable = [:]
                try resealAll(
                    keyChanges.completeKeyring(),
                    &report.resealedCount,
                    unreadable: &unreadable,
                    progress: progress
                )
                let rest = OldItems(areLeft: true)
                old = try closeOlderEpochs(than: epoch, rest, &report.resealedCount, &unreadable)
            }
            guard let old, try keyChanges.completeKeyring().epoch == epoch else { continue }
            // The next rotation removes what stays.
            try? keyChanges.removeOldManifests()
            report.unreadableItems = unreadable.values.sorted { $0.location < $1.location }
            report.unrevokedCount = resealing ? old.count : 0
            report.postponement = resealing ? nil : .requested
            return report
        }
        report.postponement = .overtaken
        return report
    }

    private typealias ItemsByLocation = [String: UnreadableItem]

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
                try resealBatch(Array(batch), with: keyring, &resealed, unreadable: &unreadable)
                completed += batch.count
                progress(StoreProgress(completed: completed, total: total))
            }
        }
    }

    // MARK: Former keys

    /// Lets former keys open what is there now, and nothing else. Removes those that no item needs.
    ///
    /// - Parameters:
    ///   - resealed: Counts Lockbox's own records, which are resealed in any case: former keys open none of them.
    ///   - unreadable: Receives what does not open from now on.
    /// - Returns: What was found, or nil if another process has begun or closed an epoch since.
    private func closeOlderEpochs(
        than epoch: UInt32,
        _ none: OldItems,
        _ resealed: inout Int,
        _ unreadable: inout ItemsByLocation
    ) throws -> OldItems? {
        let keyring = try keyChanges.completeKeyring()
        guard keyring.epoch == epoch else { return nil }
        // Otherwise the next one would list nothing.
        for first in keyring.closings.compactMap(\.manifest) {
            _ = try keyStore.manifests.manifest(first, strictly: true)
        }
        var old = none
        try add(allOf: keyring, to: &old, &unreadable)
        // No later call reads them with former keys, so whatever keeps them from being written ends this one.
        for record in old.own {
            do { resealed += try writer.reseal([record], with: keyring) } catch let error as LockboxError
                where error.isDamage && error.isOfOneRecord
            {
                let left = unresealed(record, error)
                unreadable[left.location] = left
            }
        }
        // A commit that made an item use the new keys may not be durable yet.
        for namespace in try storage.namespaces() where keyring.owns(namespace: namespace) {
            // A folder that could not be listed either keeps the keys of its items.
            func skip(_ folder: UnreadableItem) throws {
                if unreadable[folder.location] == nil { throw folder.error }
            }
            try reader.skippingIfUnusable(namespace, unreadable: skip) {
                try storage.asFiles?.synchronize(namespace)
            }
        }
        let isClosed = try keyChanges.closeOlderEpochs(keyring, listing: old.manifest, needed: old.epochs)
        return isClosed ? old : nil
    }

    /// Adds the items that are sealed with former keys. Waits for commits that may use the keybag from before the epoch; later
    /// ones use the new keys. So nothing that was committed is left out.
    private func add(
        allOf keyring: Keyring,
        to old: inout OldItems,
        _ unreadable: inout ItemsByLocation
    ) throws {
        for namespace in try storage.namespaces() where keyring.owns(namespace: namespace) {
            let isListed: Void? = try reader.skippingIfUnusable(
                namespace,
                unreadable: { folder in
                    if folder.error.isOfTheMoment { throw folder.error }
                    unreadable[folder.location] = folder
                }
            ) {
                try reader.forEachRecord(in: namespace, waitingForCommits: true) { record in
                    let error = try add(record, to: &old, keyring)
                    guard let left = error.map({ unresealed(record, $0) }) else { return }
                    unreadable[left.location] = unreadable[left.location] ?? left
                }
            }
            if isListed == nil { old.keep(keyring.formerEpochs) }
        }
    }

    /// Returns what is wrong with an item, if anything is.
    ///
    /// One that can be read is listed if all items of its epoch open, or if it was listed before: a second rotation proves nothing of
    /// what was put there after the first. A damaged one needs no keys. One that cannot be read for now may need any.
    private func add(_ record: ItemRecord, to old: inout OldItems, _ keyring: Keyring) throws -> LockboxError?
    {
        let subject = storage.subject(of: record.name)
        do {
            guard try reader.header(of: record)?.content.epoch != keyring.epoch,
                let item = try oldItem(record, keyring)
            else { return nil }
            let closing = keyring.closing(of: item.epoch)
            if ItemKey.isReserved(prefix: item.prefix) {
                if closing != nil { return RecordError.notListed.lockboxError(subject) }
                old.own.append(ItemRecord(name: record.name, id: record.id))
                return nil
            }
            old.keep([item.epoch])
            let isListed = try closing.map { try keyStore.manifests.lists(record.id, item.hash, $0) } ?? true
            guard isListed else { return RecordError.notListed.lockboxError(subject) }
            old.manifest.add(record.id, item.hash)
            return old.areLeft
                ? .corrupt(record: subject, reason: "it is not sealed with the new keys") : nil
        } catch let error as LockboxError {
            guard error.isOfOneRecord else { throw error }
            switch error.code {
            case .corrupt, .authenticationFailed, .rolledBack: break
            case .unreadable, .unsafePermissions, .unsupportedVersion: old.keep(keyring.formerEpochs)
            // It says nothing of this record, which may be intact and would not open any more.
            default: throw error
            }
            return error
        }
    }

    /// Opens an item's metadata with former keys. Returns nil if it has the newest, or was removed meanwhile.
    private func oldItem(_ record: ItemRecord, _ keyring: Keyring) throws -> (
        epoch: UInt32, hash: RecordHash, prefix: String
    )? {
        let found = try reader.withRecord(record, keyring, atLeast: .max, unlisted: true) {
            contents,
            id,
            keyring in
            // The hash is of the bytes before they are opened in place.
            let hash = RecordHash(hashing: UnsafeRawBufferPointer(contents.bytes))
            let epoch = ItemHeader.beginning(of: contents.bytes)?.epoch ?? 0
            let key = try ItemEnvelope.openMetadata(contents.bytes, id: id, keyring: keyring).key
            guard reader.namespace(of: key.prefix, keyring) == record.name.namespace else {
                throw RecordError.notAuthentic
            }
            return (epoch: epoch, hash: hash, prefix: key.prefix)
        }
        return found?.epoch == keyring.epoch ? nil : found
    }

    private func unresealed(_ item: ItemRecord, _ error: LockboxError) -> UnreadableItem {
        let location = storage.location(of: item.name)
        return UnreadableItem(key: nil, record: item.name.path, location: location, error: error)
    }

    /// Reseals items together, or one by one if that fails, to learn which of them cannot be read.
    private func resealBatch(
        _ items: [ItemRecord],
        with keyring: Keyring,
        _ resealed: inout Int,
        unreadable: inout ItemsByLocation
    ) throws {
        do {
            resealed += try writer.reseal(items, with: keyring)
        } catch let error as LockboxError {
            // The items may be sealed with the new keys, and be so no longer after a power cut: that would not show any more.
            if [.outcomeUnknown, .notReachable, .accessDenied].contains(error.code) { throw error }
            for item in items {
                do { resealed += try writer.reseal([item], with: keyring) } catch let error as LockboxError {
                    let found = unresealed(item, error)
                    // Each of the others would be waited for as long, and a keybag that is refused is not the item's fault.
                    if error.code == .outcomeUnknown || error.isOfKeybag || error.isOfWholeStore {
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
            try reader.skippingIfUnusable(namespace, unreadable: unreadable) {
                try reader.items(in: namespace, waitingForCommits: true)
            }
        }
    }
}

extension LockboxError {
    /// Whether the system refused a call for a reason that says nothing of the file: the next call may succeed.
    fileprivate var isOfTheMoment: Bool {
        guard case .storageFailure(_, _, let code, _) = self else { return false }
        return [ENOMEM, EMFILE, ENFILE, ESTALE, EAGAIN, EINTR].contains(code)
    }
}

/// The items that are sealed with former keys.
private struct OldItems {
    /// Whether all others have been resealed.
    var areLeft = false
    /// The items that open until they are resealed.
    var manifest = Manifest()
    /// Lockbox's own records.
    var own: [ItemRecord] = []
    /// The epochs whose keys are needed.
    private(set) var epochs: Set<UInt32> = []
    /// The number of items, and of folders that cannot be listed, that need them.
    private(set) var count = 0

    mutating func keep(_ needed: Set<UInt32>) {
        epochs.formUnion(needed)
        count += 1
    }
}

/// The result of a call that replaces the store's keys: ``SealedBackend``'s `rotateKeys`, and every change of a passcode
/// or another slot.
public struct RotationReport: StoreReport, Equatable {
    /// Why items were left for later. The old keys open them until the next `rotateKeys(newDeviceKey:)`, and
    /// no others.
    #if hasAttribute(nonexhaustive)
        @nonexhaustive
    #endif
    public enum Postponement: String, Sendable, Hashable, Codable, CaseIterable {
        /// The caller asked for it.
        case requested
        /// Other processes began one rotation after the other meanwhile.
        case overtaken
        /// An error ended the call after the new keys had taken effect. The old ones may still open new items: see
        /// ``StoreStatus/isInterrupted``.
        case failed
    }

    /// The number of items sealed with the new keys.
    public var resealedCount = 0

    /// The items that could not be read, and the prefixes whose folders could not be listed.
    public var unreadableItems: [UnreadableItem] = []

    /// The number of items that the old keys are kept for, not counting postponed ones: those that cannot be read for now, are not
    /// accepted, or have a damaged value. A folder that could not be listed counts as one. See
    /// ``SealedBackend/acceptItem(record:)``.
    public var unrevokedCount = 0

    /// Why items were left for later, or `nil` if none were.
    public var postponement: Postponement?

    /// Whether the store has a new device key. False if the key is kept elsewhere and no new one was given. Then the
    /// old key still opens names, attributes and the `always` classes.
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
