import LockboxCore

/// The format in which Lockbox seals all data: `nonce 24 | commitment 32 | ciphertext | tag 16`.
///
/// A keyed BLAKE2b hash of the context and the nonce, 64 bytes long, yields the box's own key and a commitment
/// to it. The commitment is compared before anything is decrypted, because XChaCha20-Poly1305 alone does not
/// commit to its key.
enum SealedBox {
    static let prefixLength = AEAD.nonceLength + commitmentLength
    static let overhead = prefixLength + AEAD.tagLength

    private static let commitmentLength = 32

    /// Seals, in place, the plaintext between the box's prefix and its tag.
    static func seal(
        _ box: UnsafeMutableRawBufferPointer,
        authenticating data: [UInt8],
        with key: BoxKey
    ) {
        precondition(box.count >= overhead)
        let nonce = box.part(..<AEAD.nonceLength)
        let ciphertext = box.part(prefixLength...)
        Sodium.fillRandom(nonce)
        key.withDerived(UnsafeRawBufferPointer(nonce)) { boxKey, commitment in
            box.part(AEAD.nonceLength..<prefixLength).copyMemory(from: commitment)
            data.withUnsafeBytes { data in
                AEAD.seal(
                    UnsafeRawBufferPointer(ciphertext.part(..<(ciphertext.count - AEAD.tagLength))),
                    authenticating: data,
                    nonce: UnsafeRawBufferPointer(nonce),
                    key: boxKey,
                    into: ciphertext
                )
            }
        }
    }

    /// Opens a box in place.
    ///
    /// - Returns: The plaintext, inside `box`, or nil if the box is not authentic. The ciphertext may then
    ///   be overwritten.
    static func open(
        _ box: UnsafeMutableRawBufferPointer,
        authenticating data: [UInt8],
        with key: BoxKey
    ) -> UnsafeMutableRawBufferPointer? {
        guard box.count >= overhead else { return nil }
        let sealed = UnsafeRawBufferPointer(box)
        let nonce = sealed.part(..<AEAD.nonceLength)
        let plaintext = box.part(prefixLength..<(box.count - AEAD.tagLength))
        let isOpen = key.withDerived(nonce) { boxKey, commitment in
            data.withUnsafeBytes { data in
                Sodium.isEqual(commitment, sealed.part(AEAD.nonceLength..<prefixLength))
                    && AEAD.open(
                        sealed.part(prefixLength...),
                        authenticating: data,
                        nonce: nonce,
                        key: boxKey,
                        into: plaintext
                    )
            }
        }
        return isOpen ? plaintext : nil
    }
}

/// A key for boxes of one purpose in one context.
struct BoxKey {
    let key: SecretKey
    let personal: Personal
    let context: [UInt8]

    /// Calls `body` with the key of the box that has this nonce.
    fileprivate func withDerived<Result>(
        _ nonce: UnsafeRawBufferPointer,
        _ body: (_ boxKey: UnsafeRawBufferPointer, _ commitment: UnsafeRawBufferPointer) -> Result
    ) -> Result {
        withUnsafeTemporaryAllocation(byteCount: 64, alignment: 8) { derived in
            (context + nonce).withUnsafeBytes {
                Sodium.hash($0, key: key, personal: personal, into: derived)
            }
            defer { Sodium.wipe(derived) }
            let derived = UnsafeRawBufferPointer(derived)
            return body(derived.part(..<AEAD.keyLength), derived.part(AEAD.keyLength...))
        }
    }
}

/// A kernel record that keeps a store unlocked for every process of the user: an unlock key, sealed with the device key
/// and bound to the serial number of the kernel's key. It opens nothing without the device key, in a copy, or after the
/// next epoch has begun.
struct SharedUnlock {
    let level: UnlockLevel
    /// When the kernel removes the record, in seconds since 1970. 0 means never.
    let deadline: UInt64
    let key: SecretKey

    static let length = headerLength + SealedBox.overhead + SecretKey.length

    private static let headerLength = 16

    /// Identifies a record. While the keybag is rewritten, there are two for each level: one for the old
    /// keybag, one for the new.
    struct KeyKind: Hashable, CaseIterable {
        let level: UnlockLevel
        let isOfNextKeybag: Bool

        /// In the order of lookup: the record that opens most comes first.
        static let allCases = UnlockLevel.allCases.flatMap { level in
            [false, true].map { KeyKind(level: level, isOfNextKeybag: $0) }
        }

        /// Returns the name of a store's record in the kernel.
        func name(_ store: StoreID) -> String {
            let level = level == .unlocked ? "unlocked" : "after-first-unlock"
            return "lockbox:\(store.name):\(level)\(isOfNextKeybag ? ":next" : "")"
        }
    }

    /// Returns the sealed record.
    func encoded(_ serial: Int32, _ store: StoreID, _ device: SecretKey) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: Self.length)
        bytes.withUnsafeMutableBytes { record in
            var writer = ByteWriter(record)
            RecordKind.sharedUnlock.write(to: &writer)
            writer.write(level.rawValue)
            writer.skip(1)
            writer.write(deadline)
            writer.skip(SealedBox.prefixLength)
            writer.write(key)
            SealedBox.seal(
                record.part(Self.headerLength...),
                authenticating: Self.binding(of: record, serial),
                with: Self.boxKey(device, store)
            )
        }
        return bytes
    }

    private static func boxKey(_ device: SecretKey, _ store: StoreID) -> BoxKey {
        BoxKey(key: device, personal: .sharedUnlock, context: store.bytes)
    }

    /// The box authenticates the header and the serial number.
    private static func binding(of record: UnsafeMutableRawBufferPointer, _ serial: Int32) -> [UInt8] {
        record[..<headerLength] + withUnsafeBytes(of: UInt32(bitPattern: serial).littleEndian, Array.init)
    }
}

extension SharedUnlock {
    /// Opens a record in place. Returns nil if it belongs to another store, device key or serial number, or if its time
    /// is over.
    init?(
        _ record: UnsafeMutableRawBufferPointer,
        _ level: UnlockLevel,
        _ serial: Int32,
        _ store: StoreID,
        _ device: SecretKey,
        now: UInt64
    ) throws {
        var reader = ByteReader(UnsafeRawBufferPointer(record))
        guard record.count == Self.length, (try? RecordKind.sharedUnlock.check(&reader)) != nil,
            reader.read(UInt8.self) == level.rawValue, reader.skipZeros(1),
            let deadline = reader.read(UInt64.self)
        else { return nil }
        let plaintext = SealedBox.open(
            record.part(Self.headerLength...),
            authenticating: Self.binding(of: record, serial),
            with: Self.boxKey(device, store)
        )
        guard let plaintext, deadline == 0 || now < deadline else { return nil }
        let key = try SecretKey { $0.copyMemory(from: UnsafeRawBufferPointer(plaintext)) }
        self.init(level: level, deadline: deadline, key: key)
    }
}
