import LockboxCore
import LockboxSodium

/// The two MACs between an item's metadata box and its value box. They authenticate the item's ID and everything before them.
///
/// The first is made with the key of the item's class, so metadata can be authenticated at the level of the class without
/// reading the value. The second is made with the key of `whenUnlocked`: it proves that the class was chosen by somebody who
/// could unlock the store. It is random if nobody proved that, in classes that need an unlock anyway, and in a store without slots.
struct ItemMACs {
    static let length = 2 * macLength

    private static let macLength = 32

    private let header: ItemHeader
    private let id: RecordID
    private let classKey: SecretKey?
    private let unlockKey: SecretKey?
    private let protection: Keyring.Protection

    init(_ header: ItemHeader, _ id: RecordID, _ keyring: Keyring) {
        self.header = header
        self.id = id
        classKey = keyring.openKey(.classKey(header.accessibility), epoch: header.epoch)
        unlockKey = keyring.openKey(.classKey(.whenUnlocked), epoch: header.epoch)
        protection = keyring.protection(ofEpoch: header.epoch)
    }

    private var needsUnlock: Bool { KeyRole.classKey(header.accessibility).level == .unlocked }

    /// Writes the MACs into a record that is complete up to them.
    func write(to record: UnsafeMutableRawBufferPointer, _ origin: ClassOrigin) {
        if let classKey { compute(.classMAC, classKey, of: record, into: field(0, of: record)) }
        if let unlockKey, !needsUnlock, protection == .slots, origin.proof == .unlocked {
            compute(.unlockMAC, unlockKey, of: record, into: field(1, of: record))
        } else {
            Sodium.fillRandom(field(1, of: record))
        }
    }

    /// Checks the MACs whose keys are open. Returns who chose the class.
    func check(_ record: UnsafeMutableRawBufferPointer) throws(RecordError) -> ClassOrigin {
        guard record.count >= header.valueStart else { throw .malformed("it is cut short") }
        if let classKey, !isRight(0, .classMAC, classKey, record) { throw .notAuthentic }
        if protection == .none { return ClassOrigin(.unprotected) }
        guard let unlockKey, classKey != nil else { return ClassOrigin(.locked) }
        if needsUnlock { return ClassOrigin(.unlocked) }
        let isProven = protection == .slots && isRight(1, .unlockMAC, unlockKey, record)
        return ClassOrigin(isProven ? .unlocked : .missing)
    }

    private func isRight(
        _ number: Int,
        _ personal: Personal,
        _ key: SecretKey,
        _ record: UnsafeMutableRawBufferPointer
    ) -> Bool {
        withUnsafeTemporaryAllocation(byteCount: Self.macLength, alignment: 8) { mac in
            compute(personal, key, of: record, into: mac)
            return Sodium.isEqual(
                UnsafeRawBufferPointer(mac),
                UnsafeRawBufferPointer(field(number, of: record))
            )
        }
    }

    private func compute(
        _ personal: Personal,
        _ key: SecretKey,
        of record: UnsafeMutableRawBufferPointer,
        into output: UnsafeMutableRawBufferPointer
    ) {
        let length = RecordID.length + header.metadataEnd
        withUnsafeTemporaryAllocation(byteCount: length, alignment: 8) { input in
            var writer = ByteWriter(input)
            id.withBytes { writer.write($0) }
            writer.write(UnsafeRawBufferPointer(rebasing: record[..<header.metadataEnd]))
            Sodium.hash(UnsafeRawBufferPointer(input), key: key, personal: personal, into: output)
        }
    }

    private func field(_ number: Int, of record: UnsafeMutableRawBufferPointer)
        -> UnsafeMutableRawBufferPointer
    {
        let start = header.metadataEnd + number * Self.macLength
        return UnsafeMutableRawBufferPointer(rebasing: record[start..<(start + Self.macLength)])
    }
}
