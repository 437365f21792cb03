public import LockboxCore

extension SealedBackend {
    /// Creates new keys for every class, reseals every item with them, and removes the old keys. Use it when a
    /// passcode or a device key may have leaked.
    ///
    /// Other processes can keep reading and writing. The next call resumes an interrupted rotation. Until then
    /// every item can be read, with its old key or its new one. File names, and the key they are derived with,
    /// do not change.
    ///
    /// - Parameter progress: Called after each batch of items.
    /// - Returns: The number of resealed items, and the items that could not be read. While there are any, the
    ///   old keys are kept.
    /// - Throws: ``LockboxError/interactionNotAllowed(_:)`` if the store is locked, or if another process has
    ///   changed the passcode since it was unlocked. After any error, the call can be repeated.
    @discardableResult
    public func rotateKeys(progress: (StoreProgress) -> Void = { _ in }) throws -> RotationReport {
        guard try keys.keyring(creating: false) != nil else { return RotationReport() }
        try keys.beginRotation()
        let keyring = try keys.currentKeyring()
        var report = RotationReport()
        var left: [String: LockboxError] = [:]
        let namespaces = try allItems(keyring)
        let total = namespaces.reduce(0) { $0 + $1.count }
        var completed = 0
        for items in namespaces {
            for start in stride(from: 0, to: items.count, by: ItemOperation.batch) {
                let batch = items[start..<min(start + ItemOperation.batch, items.count)]
                try reseal(Array(batch), &report)
                completed += batch.count
                progress(StoreProgress(completed: completed, total: total))
            }
        }
        // Checks all items again, because removing a key too early loses its items.
        for item in try allItems(keyring).joined() {
            let location = storage.location(of: item.name)
            do {
                // Nil if the item was removed after it was listed.
                guard let epoch = try seal(of: item)?.epoch, epoch != keyring.epoch else { continue }
                left[location] = .corrupt(record: location, reason: "it is not sealed with the new keys")
            } catch let error as LockboxError {
                left[location] = error
            }
        }
        // Otherwise another process has finished this rotation and started another.
        guard try keys.currentKeyring().epoch == keyring.epoch else { return report }
        report.unreadable.merge(left) { first, _ in first }
        guard report.isComplete else { return report }
        // A commit that made an item use the new keys may not be durable yet.
        for namespace in try storage.namespaces() where keyring.owns(namespace: namespace) {
            try storage.synchronize(namespace)
        }
        try keys.finishRotation(of: keyring.epoch)
        return report
    }

    /// Reseals items together, or one by one if that fails, to learn which of them cannot be read.
    private func reseal(_ items: [ItemRecord], _ report: inout RotationReport) throws {
        do {
            report.resealed += try reseal(items[...])
        } catch is LockboxError {
            for item in items {
                do { report.resealed += try reseal([item][...]) } catch let error as LockboxError {
                    report.unreadable[storage.location(of: item.name)] = error
                }
            }
        }
    }

    /// Returns every item of the store. Waits for commits that may use the keybag from before the rotation;
    /// later ones use the new keys. So the list contains every item that is sealed with old keys.
    private func allItems(_ keyring: Keyring) throws -> [ItemRecords] {
        try storage.namespaces().filter(keyring.owns).map { try items(in: $0, waitingForCommits: true) }
    }
}
