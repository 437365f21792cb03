import LockboxCore
import LockboxPlatform

/// Reads a store's keybag and device key.
struct KeybagReader: Sendable {
    let storage: any RecordStorage
    let device: StoredDeviceKey

    func revision() throws -> RecordRevision {
        try storage.revision(of: .keybag, maximum: KeybagHeader.maximumRecordLength)
    }

    /// Reads the keybag and the device key. If the device key does not fit, another process may have replaced both in
    /// between.
    func read() throws -> (Keybag, RecordRevision)? {
        var device: StoredDeviceKey.Candidates
        do { device = try self.device.read() } catch is LockboxError {
            // A store that is not there has no device key either. Another process may have made both in between.
            if try revision() == .absent { return nil }
            device = try self.device.read()
        }
        while true {
            do { return try read(device) } catch RecordError.wrongDeviceKey {
                let again = try self.device.read()
                if again.revision == device.revision {
                    throw device.error ?? LockboxError.deviceKeyMismatch(source: self.device.location)
                }
                device = again
            }
        }
    }

    private func read(_ device: StoredDeviceKey.Candidates) throws -> (Keybag, RecordRevision)? {
        let length = KeybagHeader.maximumRecordLength
        do {
            return try storage.read(.keybag, atLeast: length, maximum: length) {
                let revision = $0.revision  // of the bytes before they are opened in place
                return (try Keybag($0.bytes, deviceKeys: device.keys), revision)
            }
        } catch let error as RecordError where error != .wrongDeviceKey {
            throw error.lockboxError(subject)
        }
    }

    /// The identity that the keybag states. Not authenticated: it takes no device key.
    func storeIDInHeader() throws -> StoreID? {
        let length = KeybagHeader.maximumRecordLength
        return try storage.read(.keybag, atLeast: KeybagHeader.length, maximum: length) {
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

    // MARK: Errors

    var location: String { storage.location(of: .keybag) }
    var subject: LockboxError.Subject { .keybag(location) }

    func mappingErrors<Result>(_ body: () throws -> Result) throws -> Result {
        do { return try body() } catch let error as RecordError { throw error.lockboxError(subject) }
    }
}
