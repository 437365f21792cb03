import LockboxCore

/// The format in which Lockbox seals all data: `nonce 24 | commitment 32 | ciphertext | tag 16`.
///
/// A keyed BLAKE2b hash of the context and the nonce, 64 bytes long, yields the box's own key and a commitment
/// to it. The commitment is compared before anything is decrypted, because XChaCha20-Poly1305 alone does not
/// commit to its key.
enum SealedBox {
    static let prefixLength = AEAD.nonceLength + commitmentLength
    static let overhead = prefixLength + AEAD.tagLength
    static let maximumContextLength = 64

    private static let commitmentLength = 32

    /// Seals, in place, the plaintext between the box's prefix and its tag.
    static func seal(
        _ box: UnsafeMutableRawBufferPointer,
        authenticating data: UnsafeRawBufferPointer,
        context: UnsafeRawBufferPointer,
        key: SecretKey,
        personal: Personal
    ) {
        precondition(box.count >= overhead)
        let nonce = UnsafeMutableRawBufferPointer(rebasing: box[..<AEAD.nonceLength])
        let commitment = UnsafeMutableRawBufferPointer(rebasing: box[AEAD.nonceLength..<prefixLength])
        let ciphertext = UnsafeMutableRawBufferPointer(rebasing: box[prefixLength...])
        Sodium.fillRandom(nonce)
        withDerivedKey(from: key, personal: personal, context: context, nonce: .init(nonce)) {
            boxKey,
            derived in
            commitment.copyMemory(from: derived)
            AEAD.seal(
                UnsafeRawBufferPointer(rebasing: ciphertext[..<(ciphertext.count - AEAD.tagLength)]),
                authenticating: data,
                nonce: UnsafeRawBufferPointer(nonce),
                key: boxKey,
                into: ciphertext
            )
        }
    }

    /// Opens a box in place.
    ///
    /// - Returns: The plaintext, inside `box`, or nil if the box is not authentic. The ciphertext is then
    ///   overwritten.
    static func open(
        _ box: UnsafeMutableRawBufferPointer,
        authenticating data: UnsafeRawBufferPointer,
        context: UnsafeRawBufferPointer,
        key: SecretKey,
        personal: Personal
    ) -> UnsafeMutableRawBufferPointer? {
        guard box.count >= overhead else { return nil }
        let nonce = UnsafeRawBufferPointer(rebasing: box[..<AEAD.nonceLength])
        let commitment = UnsafeRawBufferPointer(rebasing: box[AEAD.nonceLength..<prefixLength])
        let ciphertext = UnsafeMutableRawBufferPointer(rebasing: box[prefixLength...])
        let plaintext = UnsafeMutableRawBufferPointer(
            rebasing: ciphertext[..<(ciphertext.count - AEAD.tagLength)]
        )
        let opened = withDerivedKey(from: key, personal: personal, context: context, nonce: nonce) {
            boxKey,
            derived in
            Sodium.isEqual(derived, commitment)
                && AEAD.open(
                    UnsafeRawBufferPointer(ciphertext),
                    authenticating: data,
                    nonce: nonce,
                    key: boxKey,
                    into: plaintext
                )
        }
        return opened ? plaintext : nil
    }

    private static func withDerivedKey<Result>(
        from key: SecretKey,
        personal: Personal,
        context: UnsafeRawBufferPointer,
        nonce: UnsafeRawBufferPointer,
        _ body: (_ boxKey: UnsafeRawBufferPointer, _ commitment: UnsafeRawBufferPointer) -> Result
    ) -> Result {
        precondition(context.count <= maximumContextLength)
        return withUnsafeTemporaryAllocation(byteCount: 64 + maximumContextLength + 24, alignment: 8) {
            scratch in
            let derived = UnsafeMutableRawBufferPointer(rebasing: scratch[..<64])
            let input = UnsafeMutableRawBufferPointer(
                rebasing: scratch[64..<(64 + context.count + nonce.count)]
            )
            input.copyMemory(from: context)
            UnsafeMutableRawBufferPointer(rebasing: input[context.count...]).copyMemory(from: nonce)
            Sodium.hash(UnsafeRawBufferPointer(input), key: key, personal: personal, into: derived)
            defer { Sodium.wipe(derived) }
            return body(
                UnsafeRawBufferPointer(rebasing: derived[..<AEAD.keyLength]),
                UnsafeRawBufferPointer(rebasing: derived[AEAD.keyLength...])
            )
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
            let id = withUnsafeBytes(of: store) { id in RecordID { $0.copyMemory(from: id) }.name }
            let level = level == .unlocked ? "unlocked" : "after-first-unlock"
            return "lockbox:\(id):\(level)\(isOfNextKeybag ? ":next" : "")"
        }
    }

    init(level: UnlockLevel, deadline: UInt64, key: SecretKey) {
        self.level = level
        self.deadline = deadline
        self.key = key
    }

    // MARK: The record

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
            key.withBytes { writer.write($0) }
            let box = UnsafeMutableRawBufferPointer(rebasing: record[Self.headerLength...])
            Self.withBinding(record, serial, store) { data, context in
                SealedBox.seal(
                    box,
                    authenticating: data,
                    context: context,
                    key: device,
                    personal: .sharedUnlock
                )
            }
        }
        return bytes
    }

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
        let box = UnsafeMutableRawBufferPointer(rebasing: record[Self.headerLength...])
        let plaintext = Self.withBinding(record, serial, store) { data, context in
            SealedBox.open(box, authenticating: data, context: context, key: device, personal: .sharedUnlock)
        }
        guard let plaintext, deadline == 0 || now < deadline else { return nil }
        self.level = level
        self.deadline = deadline
        key = try SecretKey { $0.copyMemory(from: UnsafeRawBufferPointer(plaintext)) }
    }

    /// Calls `body` with what the box authenticates, the header and the serial number, and with the store ID.
    private static func withBinding<Result>(
        _ record: UnsafeMutableRawBufferPointer,
        _ serial: Int32,
        _ store: StoreID,
        _ body: (_ data: UnsafeRawBufferPointer, _ context: UnsafeRawBufferPointer) -> Result
    ) -> Result {
        let serial = withUnsafeBytes(of: UInt32(bitPattern: serial).littleEndian, Array.init)
        let data = Array(record[..<headerLength]) + serial
        return data.withUnsafeBytes { data in withUnsafeBytes(of: store) { body(data, $0) } }
    }
}
