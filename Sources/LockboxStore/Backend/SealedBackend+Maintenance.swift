public import LockboxCore
import LockboxPlatform

extension SealedBackend {
    /// Checks everything in the store. Changes nothing.
    ///
    /// The values of locked classes are not opened; the report contains their number.
    ///
    /// - Parameter progress: Called after each record.
    /// - Returns: The number of intact items, and all problems found.
    /// - Throws: ``LockboxError/storeNotFound(location:)``; another ``LockboxError`` if the store cannot be read at all, or becomes
    ///   unreachable during the call. Problems with its contents are in the report.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func verify(progress: (StoreProgress) -> Void = { _ in }) throws -> VerifyReport {
        var report = VerifyReport()
        report.findings = try findings()
        let keyring: Keyring?
        do { keyring = try keyStore.checkedKeyring() } catch let error as LockboxError {
            guard let location = error.locationOfDamagedKeys else { throw error }
            report.add(error, location)
            return report
        }
        guard let keyring else { throw keyStore.storeIsNotFound }
        report.findings += try keyFindings()
        if try keyChanges.isInterrupted() {
            report.add(
                .interrupted,
                keyStore.reader.location,
                reason:
                    "a change of the keys was interrupted, or is under way; rotate the keys to complete it"
            )
        }
        try verifyManifest(&report)
        let namespaces = try itemsToVerify(keyring, &report)
        let total = namespaces.reduce(0) { $0 + $1.count }
        for (number, record) in namespaces.joined().enumerated() {
            try verifyItem(record, keyring, report: &report)
            progress(StoreProgress(completed: number + 1, total: total))
        }
        return report
    }

    /// Returns what the storage has besides records, and what is not safe to use. Changes nothing.
    @_spi(Extensions) public func findings() throws -> [StoreFinding] { try storage.findingsIfSupported() }

    /// Returns which of the keybag, the device key and their copies are damaged, in a store that opens. Changes nothing.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    @_spi(Extensions) public func keyFindings() throws -> [StoreFinding] {
        func look() throws -> [StoreFinding] {
            try keyStore.checkedKeyring().map { try keyStore.reader.findings($0.version) } ?? []
        }
        if try look().isEmpty { return [] }
        // While another process changes the keys, there are no copies.
        return try keyStore.alone(look)
    }

    private func verifyManifest(_ report: inout VerifyReport) throws {
        guard let first = try keyStore.own().keybag.closing.manifest,
            try keyStore.manifests.manifest(first) == nil
        else { return }
        let location = storage.location(of: Manifest.name(first))
        let reason = "the list of items that still use former keys is missing or damaged; accept them by name"
        report.add(.damaged, location, reason: reason)
    }

    /// Returns every item of the store, and reports everything else.
    private func itemsToVerify(_ keyring: Keyring, _ report: inout VerifyReport) throws -> [ItemRecords] {
        var found: [ItemRecords] = []
        for namespace in try storage.namespaces() where namespace != Manifest.namespace {
            guard keyring.owns(namespace: namespace) else {
                report.add(.foreign, namespace, reason: "the folder does not belong to this store")
                continue
            }
            do {
                let items = try reader.items(in: namespace) { name in
                    let location = storage.location(of: RecordName(namespace: namespace, name: name))
                    report.add(.foreign, location, reason: "it is not an item")
                }
                found.append(items)
            } catch let error as LockboxError {
                if error.isOfWholeStore { throw error }
                report.add(error, namespace)
            }
        }
        return found
    }

    private func verifyItem(_ record: ItemRecord, _ keyring: Keyring, report: inout VerifyReport) throws {
        do { try openWhole(record, keyring, report: &report) } catch let error as LockboxError {
            if error.isOfWholeStore { throw error }
            let location = storage.location(of: record.name)
            if try isOfAnotherStore(record.name, keyring) {
                report.add(.foreign, location, reason: "it is damaged, or belongs to another store")
            } else {
                report.add(error, location)
            }
        }
    }

    private func openWhole(_ record: ItemRecord, _ keyring: Keyring, report: inout VerifyReport) throws {
        guard let metadata = try reader.metadata(record, keyring).content else { return }
        do {
            _ = try reader.withRecord(record, keyring, atLeast: .max) {
                try ItemEnvelope.openValue($0.bytes, id: $1, keyring: $2, now: nil)
            }
        } catch LockboxError.interactionNotAllowed {
            report.lockedCount += 1
        } catch let error as LockboxError {
            return report.findings.append(
                try reader.unreadableItem(record, key: metadata.key, error: error).finding
            )
        }
        report.intactCount += 1
    }

    /// Judges by the store ID in the record's header, which is not authenticated.
    private func isOfAnotherStore(_ record: RecordName, _ keyring: Keyring) throws -> Bool {
        do {
            let maximum = ItemEnvelope.maximumLength
            return try storage.withContents(of: record, atLeast: ItemHeader.length, maximum: maximum) {
                ItemHeader.beginning(of: $0.bytes).map { $0.storeID != keyring.storeID } ?? false
            } ?? false
        } catch is LockboxError {
            return false
        }
    }
}

extension VerifyReport {
    mutating func add(_ kind: StoreFinding.Kind, _ location: String, reason: String) {
        findings.append(StoreFinding(kind: kind, location: location, reason: reason))
    }

    mutating func add(_ error: LockboxError, _ location: String) {
        findings.append(StoreFinding(error, location: location))
    }
}

extension SealedBackend {
    /// Removes an unreadable item by its record. Returns false if it is readable, and stays.
    @discardableResult
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func remove(record: String) throws -> Bool {
        let record = try recordName(record)
        var attempts = CommitAttempts(storage)
        defer { attempts.release() }
        while true {
            var expected: [RecordName: RecordRevision] = [:]
            switch try repairState(of: record) {
            case .readable: return false
            case .absent: expected[record] = .absent
            case .damaged(let revision): expected[record] = revision
            case .unread:
                // It has no revision to expect. So no other writer may commit between this read and the removal.
                if try attempts.lock([record.namespace]) { continue }
            }
            if try attempts.commit([.remove(record)], expecting: expected) { return true }
        }
    }

    /// Sets an unreadable item aside, and returns where it is now. Supported on files.
    @discardableResult
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func quarantine(record: String) throws -> String {
        let record = try recordName(record)
        // No other writer commits between the check and the quarantine.
        let lock = try storage.lockIfSupported([record.namespace])
        defer { lock?.release() }
        if case .readable = try repairState(of: record) {
            throw LockboxError.conflict(record: storage.location(of: record))
        }
        return try lock.quarantine(record)
    }

    /// Whether a record that was named as unreadable still is: another writer may have replaced it since.
    ///
    /// - Throws: ``LockboxError/interactionNotAllowed(_:)`` if only its value is locked, which may be intact.
    private func repairState(of record: RecordName) throws -> RepairState {
        guard let id = RecordID(name: record.name) else { return .unread }
        let (item, keyring) = (ItemRecord(name: record, id: id), try keyStore.currentKeyring())
        // Before the look, so that what another writer puts here after it is not removed.
        let revision = try? storage.revision(of: record, maximum: .max)
        do {
            guard try reader.metadata(item, keyring).content != nil else { return .absent }
            let found = try reader.withRecord(item, keyring, atLeast: .max) {
                try ItemEnvelope.openItem($0.bytes, id: $1, keyring: $2, now: nil)
            }
            return found == nil ? .absent : .readable
        } catch let error as LockboxError {
            // Rethrows what is not about this record.
            _ = try reader.unreadableItem(item, error: error)
            return revision.map(RepairState.damaged) ?? .unread
        }
    }

    /// Refuses everything that is not the name of an item of this store, above all the keybag.
    func recordName(_ record: String) throws -> RecordName {
        let keyring = try keyStore.currentKeyring()
        let parts = record.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 2, keyring.owns(namespace: parts[0]),
            try RecordID(name: parts[1]) != nil || exists(parts[1], in: parts[0])
        else { throw LockboxError.invalidKey(reason: "no item of this store has that record") }
        return RecordName(namespace: parts[0], name: parts[1])
    }

    private func exists(_ name: String, in namespace: String) throws -> Bool {
        var exists = false
        try storage.forEachName(in: namespace, waitingForCommits: false) { if $0 == name { exists = true } }
        return exists
    }
}

/// The parts of a record that is to be repaired.
private enum RepairState {
    case absent, readable
    case damaged(RecordRevision)
    /// The storage does not read it, for example because others can write to its file. Or it is no item.
    case unread
}

extension RecordName {
    /// See ``UnreadableItem/record``.
    var path: String { namespace.map { "\($0)/\(name)" } ?? name }
}

extension LockboxError {
    /// Whether it is no damage of one record: the storage does not answer, refuses, or is not the one from before.
    var isOfWholeStore: Bool {
        switch code {
        case .notReachable, .accessDenied, .storeReplaced: true
        case .rolledBack: !isOfOneRecord
        default: false
        }
    }

    var isOfKeybag: Bool {
        if case .keybag = subject { true } else { false }
    }

    /// Where the keybag or the device key is, if the error says that it is damaged, forged or not safe to use.
    fileprivate var locationOfDamagedKeys: String? {
        switch self {
        case .corrupt(let record, _), .authenticationFailed(let record), .unsupportedVersion(let record, _),
            .missing(let record), .requirementNotMet(let record, _), .unsafePermissions(let record, _):
            record.description
        case .rolledBack(.keybag(let location), _): location
        case .deviceKeyMismatch(let source), .invalidDeviceKey(let source, _): source
        default: nil
        }
    }
}
