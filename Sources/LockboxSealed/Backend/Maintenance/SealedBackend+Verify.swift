public import LockboxCore

extension SealedBackend: VerifiableBackend {
    /// Checks everything in the store. Changes nothing.
    ///
    /// The values of locked classes are not opened; the report contains their number.
    ///
    /// - Parameter progress: Called after each record.
    /// - Returns: The number of intact items, and all problems found.
    /// - Throws: ``LockboxError`` if the store cannot be read at all, or becomes unreachable during the call. Problems with
    ///   its contents are in the report.
    public func verify(progress: (StoreProgress) -> Void = { _ in }) throws -> VerifyReport {
        var report = VerifyReport()
        report.findings = try (storage as? any InspectableStorage)?.findings() ?? []
        let keyring: Keyring?
        do { keyring = try keys.checkedKeyring() } catch let error as LockboxError {
            if error.isOfWholeStore(notOf: storage.location(of: KeyStore<Storage>.keybagRecord)) {
                throw error
            }
            report.add(error, try keybagLocation(error))
            return report
        }
        guard let keyring else { return report }
        if try keys.isInterrupted() {
            report.add(
                .interrupted,
                keys.keybagLocation,
                "an earlier change of the keys was interrupted; rotate the keys to complete it"
            )
        }
        let namespaces = try namespaces(keyring, &report)
        let total = namespaces.reduce(0) { $0 + $1.count }
        for (number, record) in namespaces.joined().enumerated() {
            try verify(record, keyring, &report)
            progress(StoreProgress(completed: number + 1, total: total))
        }
        return report
    }

    /// Returns every item of the store, and reports everything else.
    private func namespaces(_ keyring: Keyring, _ report: inout VerifyReport) throws -> [ItemRecords] {
        var found: [ItemRecords] = []
        for namespace in try storage.namespaces() {
            guard keyring.owns(namespace: namespace) else {
                report.add(.foreign, namespace, "the folder does not belong to this store")
                continue
            }
            do { found.append(try items(in: namespace, reporting: &report)) } catch let error as LockboxError
            {
                if error.isOfWholeStore(notOf: namespace) { throw error }
                report.add(error, namespace)
            }
        }
        return found
    }

    private func items(in namespace: String, reporting report: inout VerifyReport) throws -> ItemRecords {
        var items = ItemRecords(namespace: namespace)
        try storage.forEachName(in: namespace, waitingForCommits: false) { name in
            if let id = RecordID(name: name) { return items.ids.append(id) }
            let record = RecordName(namespace: namespace, name: name)
            report.add(.foreign, storage.location(of: record), "it is not an item")
        }
        return items
    }

    private func verify(_ record: ItemRecord, _ keyring: Keyring, _ report: inout VerifyReport) throws {
        do { try check(record, keyring, &report) } catch let error as LockboxError {
            let location = storage.location(of: record.name)
            if error.isOfWholeStore(notOf: location) { throw error }
            if try isOfAnotherStore(record.name, keyring) {
                report.add(.foreign, location, "it is damaged, or belongs to another store")
            } else {
                report.add(error, location)
            }
        }
    }

    private func check(_ record: ItemRecord, _ keyring: Keyring, _ report: inout VerifyReport) throws {
        guard let metadata = try metadata(record, keyring) else { return }  // removed meanwhile
        do {
            _ = try read(record, keyring, upTo: .max) {
                _ = try ItemEnvelope.openValue(
                    $0.bytes,
                    id: $1,
                    keyring: $2,
                    now: nil
                )
            }
        } catch LockboxError.interactionNotAllowed {
            report.lockedCount += 1
        } catch let error as LockboxError {
            return report.findings.append(try unreadableItem(record, key: metadata.key, error).finding)
        }
        report.intactCount += 1
    }

    /// Judges by the store ID in the record's header, which is not authenticated.
    private func isOfAnotherStore(_ record: RecordName, _ keyring: Keyring) throws -> Bool {
        var other = false
        do {
            _ = try storage.read(record, upTo: ItemHeader.length, maximum: ItemEnvelope.maximumLength) {
                other = ItemHeader.storeID($0.bytes).map { $0 != keyring.storeID } ?? false
            }
        } catch is LockboxError {
            return false
        }
        return other
    }

    private func keybagLocation(_ error: LockboxError) throws -> String {
        switch error {
        case .corrupt(let record, _), .authenticationFailed(let record), .unsupportedVersion(let record, _),
            .missing(let record), .rolledBack(let record, _), .requirementNotMet(let record, _):
            record
        case .deviceKeyMismatch(let path), .unsafePermissions(let path, _), .invalidDeviceKey(let path, _):
            path
        default: throw error
        }
    }
}

extension VerifyReport {
    mutating func add(_ kind: StoreFinding.Kind, _ location: String, _ reason: String) {
        findings.append(StoreFinding(kind: kind, location: location, reason: reason))
    }

    mutating func add(_ error: LockboxError, _ location: String) {
        findings.append(StoreFinding(error, location: location))
    }
}
