import LockboxCore
import LockboxSodium

/// A store's device key, read from its source or from a record of the store.
struct StoredDeviceKey<Storage: RecordStorage>: Sendable {
    let storage: Storage
    let source: DeviceKeySource.Source

    private var record: RecordName { RecordName(name: "device-key") }

    /// The key's name in error messages.
    var location: String {
        if case .given(let name, _) = source { return name }
        return storage.location(of: record)
    }

    func read() throws -> SecretKey {
        if let key = try readIfPresent() { return key }
        throw LockboxError.missing(record: location)
    }

    /// Returns the key. Creates it if it belongs in the store and is missing.
    func readOrCreate(_ turn: (any CommitTurn)?) throws -> SecretKey {
        if let key = try readIfPresent() { return key }
        var bytes = DeviceKeyRecord.encoded(try .random())
        defer { Sodium.wipe(&bytes) }
        let outcome = try storage.commit([.put(record, bytes)], expecting: [record: .absent], turn: turn)
        if case .unknown(let error) = outcome { throw error }
        // If another process has created a key first, that one is used.
        return try read()
    }

    /// Returns nil if the key belongs in the store and is missing.
    private func readIfPresent() throws -> SecretKey? {
        if case .given(let name, let read) = source { return try DeviceKeySource.key(name, read) }
        var key: SecretKey?
        do {
            _ = try storage.read(record, upTo: DeviceKeyRecord.length, maximum: DeviceKeyRecord.length) {
                contents in
                defer { Sodium.wipe(contents.bytes) }
                key = try DeviceKeyRecord.decode(UnsafeRawBufferPointer(contents.bytes))
            }
        } catch let fault as RecordError {
            throw fault.error(location)
        }
        return key
    }
}
