@_spi(Extensions) import LockboxCore

/// The public keys in a keybag, by which programs without any secret tell the owner's keybag from a forged one.
///
/// The *root key* is made with the store, and anew with its first slot; its hash is the store's identity. Each epoch has an *owner's
/// key*, which signs the keybag. The root key certifies it, and so does the owner's key before it: a program that remembers an older
/// one can follow. All private halves are in the vault of level 1, only those of the newest keys.
struct KeybagOwner: Sendable {
    static let maximumFormer = 32

    /// Signs the keybag.
    let key: [UInt8]
    /// By the root key, for ``key``.
    let root: OwnerCertificate
    /// By former keys, oldest first, each for the next one, and the last for ``key``.
    let former: [OwnerCertificate]

    /// The store's identity, as users see it.
    var identity: String {
        Sodium.hash(of: Array("lockbox.root.id1".utf8) + root.issuer, length: 16).hexadecimal
    }

    /// Whether the root key has certified the owner's key.
    func isOfRoot(_ store: StoreID) -> Bool { root.isValid(for: key, store) }

    /// Whether the owner's key is a known one, or follows it.
    func follows(_ known: [UInt8], _ store: StoreID) -> Bool {
        if key == known { return true }
        guard let start = former.firstIndex(where: { $0.issuer == known }) else { return false }
        let chain = former[start...]
        return zip(chain, chain.dropFirst().map(\.issuer) + [key]).allSatisfy { $0.isValid(for: $1, store) }
    }
}

/// The statement of one key that another one is the owner's, too.
struct OwnerCertificate: Sendable {
    static let length = SigningKey.publicKeyLength + SigningKey.signatureLength

    /// The public key of the one who states it.
    let issuer: [UInt8]
    let signature: [UInt8]

    init(_ subject: [UInt8], by issuer: SigningKey, _ store: StoreID) throws {
        self.issuer = issuer.publicKey
        signature = try issuer.sign(Self.message(issuer.publicKey, subject, store))
    }

    func isValid(for subject: [UInt8], _ store: StoreID) -> Bool {
        SigningKey.isValid(signature, of: Self.message(issuer, subject, store), by: issuer)
    }

    private static func message(_ issuer: [UInt8], _ subject: [UInt8], _ store: StoreID) -> [UInt8] {
        Array("lockbox.owner.c1".utf8) + store.bytes + issuer + subject
    }
}

/// A keybag's signature: of its header, with the device check, and of all plaintext before it.
struct KeybagSignature: Sendable {
    let message: [UInt8]
    let bytes: [UInt8]
    /// Each content is verified once.
    private let result = Protected<Bool?>(nil)

    init(_ header: UnsafeRawBufferPointer, _ plaintext: UnsafeRawBufferPointer) {
        let end = plaintext.count - SigningKey.signatureLength
        message = Self.message(header, plaintext.part(..<end))
        bytes = [UInt8](plaintext.part(end...))
    }

    func isValid(by owner: KeybagOwner) -> Bool {
        result.withLock { result in
            let isValid = result ?? SigningKey.isValid(bytes, of: message, by: owner.key)
            result = isValid
            return isValid
        }
    }

    /// The first 16 bytes are those of no other statement.
    static func message(_ header: UnsafeRawBufferPointer, _ plaintext: UnsafeRawBufferPointer) -> [UInt8] {
        var input: [UInt8] = []
        // Growing the array later would leave copies.
        input.reserveCapacity(header.count + plaintext.count)
        input += header
        input += plaintext
        defer { Sodium.wipe(&input) }
        return Array("lockbox.owner.b1".utf8) + Sodium.hash(of: input, length: 64)
    }
}

extension KeybagOwner {
    init(_ reader: inout ByteReader) throws(RecordError) {
        guard let count = reader.read(UInt32.self), count <= Self.maximumFormer,
            let root = OwnerCertificate(&reader), let key = reader.readBytes(SigningKey.publicKeyLength)
        else { throw .malformed("its owner's key is not well-formed") }
        self.key = [UInt8](key)
        self.root = root
        var former: [OwnerCertificate] = []
        for _ in 0..<count {
            guard let certificate = OwnerCertificate(&reader) else {
                throw .malformed("a former owner's key is cut short")
            }
            former.append(certificate)
        }
        self.former = former
    }

    static let maximumLength = 4 + SigningKey.publicKeyLength + (1 + maximumFormer) * OwnerCertificate.length

    var length: Int { 4 + SigningKey.publicKeyLength + (1 + former.count) * OwnerCertificate.length }

    func write(to writer: inout ByteWriter) {
        writer.write(UInt32(former.count))
        root.write(to: &writer)
        writer.write(key)
        for certificate in former { certificate.write(to: &writer) }
    }
}

extension OwnerCertificate {
    fileprivate init?(_ reader: inout ByteReader) {
        guard let issuer = reader.readBytes(SigningKey.publicKeyLength),
            let signature = reader.readBytes(SigningKey.signatureLength)
        else { return nil }
        (self.issuer, self.signature) = ([UInt8](issuer), [UInt8](signature))
    }

    fileprivate func write(to writer: inout ByteWriter) {
        writer.write(issuer)
        writer.write(signature)
    }
}
