import Clibsodium
import LockboxPlatform

/// The file format of age, version 1, as `age.md` of C2SP specifies it: recipients of the types X25519 and scrypt, no armor, no
/// plugins. Encrypts and decrypts a stream with little memory.
package enum Age {
    /// libsodium is initialized before its first use.
    static let ready: Void = precondition(sodium_init() >= 0, "libsodium could not be initialized")

    static let chunkLength = 64 << 10
}

package enum AgeError: Error, Equatable {
    /// It does not begin like a file of age, version 1.
    case notAge
    /// The header is not well-formed.
    case header(String)
    /// None of the identities opens it. Its recipients have these types.
    case noMatch(types: [String])
    /// The header was changed.
    case headerNotAuthentic
    /// The payload was changed or cut.
    case payload
    /// A guess at the passphrase costs more than is allowed.
    case workFactor(Int, maximum: Int)
    case notEnoughMemory(bytes: Int)
    /// The text of a recipient or identity.
    case key(String)
}

/// Makes a file, which is what these calls return, one after the other.
package struct AgeEncryptor {
    /// The first bytes of the file.
    package let header: [UInt8]

    private let fileKey: WipedBytes
    private let recipients: [UInt8]
    private var stream: AgeStream
    private var chunk: [UInt8] = []

    /// How many recipients a file has at most. age has no limit.
    package static let maximumRecipients = AgeHeader.maximumStanzas

    /// - Parameter recipients: One passphrase, or one or more public keys.
    package init(to recipients: [AgeRecipient]) throws(AgeError) {
        let fileKey = WipedBytes(random: 16)
        var stanzas: [AgeStanza] = []
        for recipient in recipients { stanzas.append(try AgeStanza.wrapping(fileKey, to: recipient)) }
        precondition(!stanzas.isEmpty && (stanzas.count == 1 || stanzas.allSatisfy { $0.type != "scrypt" }))
        self.init(fileKey, recipients: AgeHeader(stanzas, fileKey: fileKey).bytes)
    }

    private init(_ fileKey: WipedBytes, recipients: [UInt8]) {
        let nonce = WipedBytes(random: 16).withBytes { Array($0) }
        self.fileKey = fileKey
        self.recipients = recipients
        stream = AgeStream(fileKey, nonce)
        header = recipients + nonce
    }

    /// Makes another file for the same recipients, under another key of the stream. It does not cost scrypt again.
    package func anew() -> AgeEncryptor { AgeEncryptor(fileKey, recipients: recipients) }

    package mutating func encrypt(_ bytes: [UInt8]) -> [UInt8] {
        var (rest, output) = (bytes[...], [UInt8]())
        while !rest.isEmpty {
            // A full chunk may be the last.
            if chunk.count == Age.chunkLength { output += flush(isLast: false) }
            let next = rest.prefix(Age.chunkLength - chunk.count)
            chunk += next
            rest = rest.dropFirst(next.count)
        }
        return output
    }

    /// Returns the end, without which nothing is whole.
    package mutating func finish() -> [UInt8] { flush(isLast: true) }

    private mutating func flush(isLast: Bool) -> [UInt8] {
        defer {
            chunk.withUnsafeMutableBytes { if !$0.isEmpty { sodium_memzero($0.baseAddress!, $0.count) } }
            chunk.removeAll(keepingCapacity: true)
        }
        return stream.seal(chunk, isLast: isLast)
    }
}

/// Reads a file, chunk by chunk. Each chunk is authentic; the file is whole if the last one is followed by nil.
package struct AgeDecryptor {
    /// Opens this file at once.
    package let fileKey: AgeIdentity

    private var source: AgeSource
    private var stream: AgeStream
    private var isOver = false

    /// Reads the header.
    ///
    /// - Parameters:
    ///   - identities: The first that opens the file is used.
    ///   - read: Fills memory with the next bytes of the file, and returns their number; 0 at the end.
    package init(_ identities: [AgeIdentity], read: @escaping (UnsafeMutableRawBufferPointer) throws -> Int)
        throws
    {
        source = AgeSource(read: read)
        let header = try AgeHeader(&source)
        let types = header.stanzas.map(\.type)
        if types.count > 1, types.contains("scrypt") {
            throw AgeError.header("a passphrase is not its only recipient")
        }
        var found: WipedBytes?
        for stanza in header.stanzas where found == nil {
            for identity in identities where found == nil { found = try stanza.fileKey(identity) }
        }
        guard let fileKey = found else { throw AgeError.noMatch(types: types) }
        guard header.isAuthentic(fileKey) else { throw AgeError.headerNotAuthentic }
        self.fileKey = .fileKey(fileKey)
        let nonce = try source.bytes(16)
        guard nonce.count == 16 else { throw AgeError.header("it is cut short") }
        stream = AgeStream(fileKey, nonce)
    }

    /// Returns the next bytes, or nil after the last.
    package mutating func next() throws -> [UInt8]? {
        if isOver { return nil }
        let box = try source.bytes(Age.chunkLength + ChaCha20Poly1305.overhead)
        isOver = try source.isAtEnd
        return try stream.open(box, isLast: isOver)
    }
}

/// STREAM: chunks that are bound to their place, and to whether they are the last.
private struct AgeStream {
    private let key: WipedBytes
    private var count: UInt64 = 0

    init(_ fileKey: WipedBytes, _ nonce: [UInt8]) {
        key = HKDF.key(fileKey, salt: nonce, Array("payload".utf8))
    }

    private mutating func nonce(isLast: Bool) -> [UInt8] {
        defer { count += 1 }
        return [0, 0, 0] + withUnsafeBytes(of: count.bigEndian, Array.init) + [isLast ? 1 : 0]
    }

    mutating func seal(_ chunk: [UInt8], isLast: Bool) -> [UInt8] {
        var box = [UInt8](repeating: 0, count: chunk.count + ChaCha20Poly1305.overhead)
        chunk.withUnsafeBytes { ChaCha20Poly1305.seal($0, key, nonce: nonce(isLast: isLast), into: &box) }
        return box
    }

    mutating func open(_ box: [UInt8], isLast: Bool) throws(AgeError) -> [UInt8] {
        // Only the payload as a whole may be empty.
        let length = box.count - ChaCha20Poly1305.overhead
        guard length > 0 || length == 0 && count == 0 else { throw .payload }
        var chunk = [UInt8](repeating: 0, count: length)
        let isAuthentic = box.withUnsafeBytes {
            ChaCha20Poly1305.open($0, key, nonce: nonce(isLast: isLast), into: &chunk)
        }
        guard isAuthentic else { throw .payload }
        return chunk
    }
}

/// Bytes that are read once, in lines or in numbers.
struct AgeSource {
    let read: (UnsafeMutableRawBufferPointer) throws -> Int
    private var buffer = [UInt8](repeating: 0, count: 64 << 10)
    private var rest: Range<Int> = 0..<0
    private var isOver = false

    init(read: @escaping (UnsafeMutableRawBufferPointer) throws -> Int) { self.read = read }

    var isAtEnd: Bool {
        mutating get throws {
            while rest.isEmpty, !isOver {
                let count = try buffer.withUnsafeMutableBytes(read)
                isOver = count == 0
                rest = 0..<count
            }
            return rest.isEmpty
        }
    }

    /// Returns a line without its end, or nil if it is longer than the limit, or cut.
    mutating func line(limit: Int) throws -> [UInt8]? {
        var line: [UInt8] = []
        while try !isAtEnd {
            if let end = buffer[rest].firstIndex(of: 10) {
                line += buffer[rest.lowerBound..<end]
                rest = end + 1..<rest.upperBound
                return line.count < limit ? line : nil
            }
            line += buffer[rest]
            rest = rest.upperBound..<rest.upperBound
            if line.count >= limit { return nil }
        }
        return nil
    }

    /// Returns so many bytes, or fewer at the end.
    mutating func bytes(_ count: Int) throws -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(count)
        while bytes.count < count, try !isAtEnd {
            let next = rest.prefix(count - bytes.count)
            bytes += buffer[next]
            rest = next.upperBound..<rest.upperBound
        }
        return bytes
    }
}
