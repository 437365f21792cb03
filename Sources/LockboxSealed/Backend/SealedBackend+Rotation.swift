public import LockboxCore

extension SealedBackend {
    /// Gives every class a new key, seals every item anew, and drops the old keys: after a passcode or a device key may
    /// have become known.
    ///
    /// Other processes may go on reading and writing. An interrupted rotation is carried on by the next call; until then
    /// every item is readable, under its old key or its new one. File names stay as they are, and with them the key that
    /// they are made with.
    ///
    /// - Parameter progress: Is called after each item.
    /// - Returns: What was done. An item that cannot be read keeps the old keys alive.
    /// - Throws: ``LockboxError/interactionNotAllowed(_:)`` if the store is locked, also if another process has changed the
    ///   passcode since it was unlocked. Whatever stops it half way, it can be called again.
    @discardableResult
    public func rotateKeys(progress: (StoreProgress) -> Void = { _ in }) throws -> RotationReport {
        guard try keys.keyring(creating: false) != nil else { return RotationReport() }
        try keys.beginRotation()
        let keyring = try keys.currentKeyring()
        var report = RotationReport()
        var left: [String: LockboxError] = [:]
        let namespaces = try allItems(keyring)
        let total = namespaces.reduce(0) { $0 + $1.count }
        for (index, item) in namespaces.joined().enumerated() {
            do {
                if try reseal(item) { report.resealed += 1 }
            } catch let error as LockboxError {
                report.unreadable[storage.location(of: item.name)] = error
            }
            progress(StoreProgress(completed: index + 1, total: total))
        }
        // Looked at once more: a key that is dropped too early is the loss of an item.
        for item in try allItems(keyring).joined() {
            let location = storage.location(of: item.name)
            do {
                // None: it was removed since it was listed.
                guard let epoch = try seal(of: item)?.epoch, epoch != keyring.epoch else { continue }
                left[location] = .corrupt(record: location, reason: "it is not under the new keys")
            } catch let error as LockboxError {
                left[location] = error
            }
        }
        // Otherwise another process has finished this rotation, and begun the next.
        guard try keys.currentKeyring().epoch == keyring.epoch else { return report }
        report.unreadable.merge(left) { first, _ in first }
        if report.isComplete { try keys.finishRotation(of: keyring.epoch) }
        return report
    }

    /// Every item of the store. A commit that found the keybag as it was before the rotation is waited for; one that begins
    /// later has the new keys. So no item under old keys is missing here.
    private func allItems(_ keyring: Keyring) throws -> [ItemRecords] {
        try storage.namespaces().filter(keyring.owns).map { try items(in: $0, waitingForCommits: true) }
    }
}
