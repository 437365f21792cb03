@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// The keybag and the device key.
struct KeyFiles {
    var keybag: [UInt8]
    var deviceKey: [UInt8]
}

extension TestStore {
    func keyFiles() throws -> KeyFiles {
        KeyFiles(keybag: try readBytes(keybag), deviceKey: try readBytes(deviceKey))
    }

    /// Anybody with a copy of them may do this.
    func putBack(_ files: KeyFiles) throws {
        try overwriteBoth(keybag, files.keybag)
        try overwriteBoth(deviceKey, files.deviceKey)
    }

    /// Changes what the device key opens of the keybag, or the header, as its holder may do.
    func resealKeybag(_ change: (inout [UInt8]) throws -> Void) throws {
        var record = try readBytes(keybag)
        let keys = try deviceKeys()
        let key = record.withUnsafeMutableBytes { bytes in
            keys.first { KeybagHeader.openBox(bytes, $0) != nil }  // in place
        }
        guard let key else { throw RecordError.wrongDeviceKey }
        try change(&record)
        record.withUnsafeMutableBytes { KeybagHeader.seal($0, key) }
        try overwriteBoth(keybag, record)
    }

    func deviceKeys() throws -> [SecretKey] {
        try readBytes(deviceKey).withUnsafeBytes { try DeviceKeyRecord.decode($0) }
    }

    /// The name of the kernel's key that opens this much for all processes of the user.
    func kernelName(of level: UnlockLevel) throws -> String {
        SharedUnlock.KeyKind(level: level, isOfNextKeybag: false).name(try openedKeybag().storeID)
    }

    func serial(of level: UnlockLevel) throws -> KernelKeyring.Serial? {
        KernelKeyring().serial(of: try kernelName(of: level))
    }

    /// The keys that the kernel holds for the store.
    func serials() throws -> [KernelKeyring.Serial] { try UnlockLevel.allCases.compactMap(serial) }

    func openedKeybag() throws -> Keybag { try Keybag.read(readBytes(keybag), deviceKeys()) }
}

extension Keybag {
    static func read(_ bytes: [UInt8], _ deviceKeys: [SecretKey]) throws -> Keybag {
        var bytes = bytes
        return try bytes.withUnsafeMutableBytes { try Keybag($0, deviceKeys: deviceKeys) }
    }

    /// A new store's.
    static func create(deviceKey: SecretKey) throws -> Keybag {
        try read(KeybagContents().encoded(deviceKey: deviceKey), [deviceKey])
    }

    /// The keys that open without a slot.
    func keyring() throws -> Keyring { try Keyring(keybag: self, keys: open(unlockKeys(with: nil)).keys) }
}
