import LockboxCore
import LockboxPlatform

/// Reads a store's keybag and device key.
struct KeybagReader: Sendable {
    let storage: any RecordStorage
    let device: StoredDeviceKey

    var copies: KeyCopies { KeyCopies(storage: storage) }
    /// A device key from elsewhere may lie in the store's folder too, and is not the store's.
    var copiedRecords: [RecordName] { device.isStored ? [.keybag, .deviceKey] : [.keybag] }

    func revision(of record: RecordName = .keybag) throws -> RecordRevision {
        try storage.revision(of: record, maximum: .max)
    }

    /// The present revisions of what a version expects.
    func revisions(_ version: KeybagVersion) throws -> [RecordName: RecordRevision] {
        var found = version.expected
        for record in found.keys { found[record] = try revision(of: record) }
        return found
    }

    /// Reads the keybag and the device key, or their copies where one of them is damaged or missing.
    func read() throws -> (keybag: Keybag, version: KeybagVersion)? {
        do {
            if let found = try readFirst() { return found }
        } catch let error as LockboxError where error.isOfDamagedKeys && copies.areKept {
            guard let found = try? readWithCopies() else { throw error }
            return found
        }
        return try copies.areKept && revision(of: .keybag.copy) != .absent ? readWithCopies() : nil
    }

    private func readWithCopies() throws -> (keybag: Keybag, version: KeybagVersion)? {
        let (device, first) = (try self.device.read(withCopy: true), try revision())
        var found: (keybag: Keybag, version: KeybagVersion)?
        do { found = try read(.keybag, device) } catch let error as LockboxError where error.isOfDamagedKeys {
        }
        if found == nil {
            found = try read(.keybag.copy, device)
            found?.version.inPlaceOf = first
            found?.version.damaged.append(.keybag)
        }
        guard var found else { return nil }
        if device.isOnlyCopied(found.keybag.deviceKey) { found.version.damaged.append(.deviceKey) }
        return found
    }

    /// If the device key does not fit, another process may have replaced both in between.
    private func readFirst() throws -> (keybag: Keybag, version: KeybagVersion)? {
        var device: StoredDeviceKey.Candidates
        do { device = try self.device.read() } catch is LockboxError {
            // A store that is not there has no device key either. Another process may have made both in between.
            if try revision() == .absent { return nil }
            device = try self.device.read()
        }
        while true {
            do { return try read(.keybag, device) } catch let error as LockboxError
                where error.code == .deviceKeyMismatch
            {
                let again = try self.device.read()
                if again.revision == device.revision { throw device.error ?? error }
                device = again
            }
        }
    }

    private func read(_ record: RecordName, _ device: StoredDeviceKey.Candidates) throws
        -> (keybag: Keybag, version: KeybagVersion)?
    {
        let length = KeybagHeader.maximumRecordLength
        do {
            return try storage.withContents(of: record, atLeast: length, maximum: length) {
                // Of the bytes before they are opened in place.
                let version = KeybagVersion(revision: $0.revision)
                return (try Keybag($0.bytes, deviceKeys: device.keys), version)
            }
        } catch RecordError.wrongDeviceKey {
            throw LockboxError.deviceKeyMismatch(source: self.device.location)
        } catch let error as RecordError {
            throw error.lockboxError(.keybag(storage.location(of: record)))
        }
    }

    /// The identity that the keybag states. Not authenticated: it takes no device key.
    func storeIDInHeader() throws -> StoreID? {
        let length = KeybagHeader.maximumRecordLength
        return try storage.withContents(of: .keybag, atLeast: KeybagHeader.length, maximum: length) {
            try KeybagHeader(UnsafeRawBufferPointer($0.bytes)).storeID
        }
    }

    /// A store with items but without a keybag is damaged, not new.
    func hasItems() throws -> Bool {
        try storage.namespaces().contains(where: Keyring.isNamespaceOfAnyStore)
    }

    /// If the keybag and the device key were replaced by another store's, every item would seem to be absent.
    func checkItems(belongTo keyring: Keyring) throws {
        let namespaces = try storage.namespaces().filter(Keyring.isNamespaceOfAnyStore)
        if !namespaces.isEmpty, !namespaces.contains(where: keyring.owns) {
            throw LockboxError.authenticationFailed(record: subject)
        }
    }

    /// Returns which of the keybag, the device key and their copies are damaged or missing.
    func findings(_ version: KeybagVersion) throws -> [StoreFinding] {
        try copiedRecords.compactMap { record in
            let advice = "rotate the keys to make both anew"
            func finding(_ kind: StoreFinding.Kind, _ record: RecordName, _ reason: String) -> StoreFinding {
                StoreFinding(
                    kind: kind,
                    location: storage.location(of: record),
                    reason: "\(reason); \(advice)"
                )
            }
            if version.damaged.contains(record) {
                return finding(.damaged, record, "it is damaged or missing, and \(record.copy.name) is used")
            }
            switch try copies.state(of: record) {
            case .intact: return nil
            case .damaged: return finding(.damaged, record.copy, "this copy of \(record.name) is damaged")
            case .missing:
                let reason = "a change of the keys was interrupted, or is under way, before it made this copy"
                return finding(.interrupted, record.copy, reason)
            }
        }
    }

    // MARK: Errors

    var location: String { storage.location(of: .keybag) }
    var subject: LockboxError.Subject { .keybag(location) }

    func mappingErrors<Result>(_ body: () throws -> Result) throws -> Result {
        do { return try body() } catch let error as RecordError { throw error.lockboxError(subject) }
    }
}

extension LockboxError {
    /// Whether it says that the keybag or the device key is damaged or missing. A file that cannot be read for now, or is not safe to
    /// use, is not, and a keybag that is forged or an older one opens.
    var isOfDamagedKeys: Bool {
        switch code {
        case .corrupt, .authenticationFailed, .unsupportedVersion, .deviceKeyMismatch, .missing: true
        default: false
        }
    }
}
