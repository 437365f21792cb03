import LockboxCore
public import LockboxPlatform

/// The part of an item in `gena`: everything that the Keychain has no attribute for, and a random revision that makes each
/// write's bytes different from all others.
///
/// Version 1, little-endian: version (1 byte), revision (16), created, modified, expires (doubles, seconds since 2001;
/// infinity: never), size of the value (4), format (1), flags (1: has a label, 2: has a comment), number of searchable
/// attributes (1), then for each in the order of their names' bytes: lengths of name and text (2 and 2), name, text.
struct KeychainMetadata {
    static let version: UInt8 = 1
    private static let hasLabel: UInt8 = 1
    private static let hasComment: UInt8 = 2

    /// The bytes for an item, with a new revision.
    static func bytes(_ attributes: ItemAttributes) -> Data {
        var data = Data([version])
        for _ in 0..<2 { append(UInt64.random(in: .min ... .max), to: &data) }
        for date in [attributes.created, attributes.modified, attributes.expires] {
            append((date?.timeIntervalSinceReferenceDate ?? .infinity).bitPattern, to: &data)
        }
        append(UInt32(attributes.size), to: &data)
        data.append(attributes.format.rawValue)
        data.append(
            (attributes.label == nil ? 0 : hasLabel) | (attributes.comment == nil ? 0 : hasComment)
        )
        data.append(UInt8(attributes.searchable.count))
        let pairs = attributes.searchable.map { (Data($0.utf8), Data($1.utf8)) }
        for (name, text) in pairs.sorted(by: { $0.0.lexicographicallyPrecedes($1.0) }) {
            append(UInt16(name.count), to: &data)
            append(UInt16(text.count), to: &data)
            data.append(name)
            data.append(text)
        }
        return data
    }

    private static func append(_ integer: some FixedWidthInteger, to data: inout Data) {
        withUnsafeBytes(of: integer.littleEndian) { data.append(contentsOf: $0) }
    }

    /// Reads an item's attributes.
    ///
    /// - Parameters:
    ///   - attributes: The item as the Keychain returns it.
    ///   - record: The item in a few words, for errors.
    static func attributes(_ attributes: KeychainCalls.Attributes, _ record: String) throws(LockboxError)
        -> ItemAttributes
    {
        let malformed = LockboxError.corrupt(
            record: .record(record),
            reason: "its metadata is not well-formed"
        )
        guard let bytes = attributes[KeychainName.attrGeneric]?.data, let version = bytes.first else {
            throw malformed
        }
        guard version == Self.version else {
            throw .unsupportedVersion(record: .record(record), version: Int(version))
        }
        guard let accessibility = attributes[KeychainName.attrAccessible]?.text.flatMap(Accessibility.init)
        else { throw .corrupt(record: .record(record), reason: "its class is not known") }
        var reader = Reader(bytes: bytes.dropFirst(17))
        guard let created = reader.date(), let modified = reader.date(), let expires = reader.date(),
            let size = reader.integer(UInt32.self), let format = reader.integer(UInt8.self),
            let flags = reader.integer(UInt8.self), flags & ~(hasLabel | hasComment) == 0,
            let searchable = reader.searchable(), reader.bytes.isEmpty
        else { throw malformed }
        func text(_ name: String, _ flag: UInt8) -> String? {
            flags & flag == 0 ? nil : attributes[name]?.text ?? ""
        }
        do {
            return try ItemAttributes(
                accessibility: accessibility,
                created: Date(timeIntervalSinceReferenceDate: created),
                modified: Date(timeIntervalSinceReferenceDate: modified),
                expires: expires == .infinity ? nil : Date(timeIntervalSinceReferenceDate: expires),
                label: text(KeychainName.attrLabel, hasLabel),
                comment: text(KeychainName.attrComment, hasComment),
                searchable: searchable,
                size: Int(size),
                format: ValueFormat(rawValue: format)
            )
        } catch { throw malformed }
    }

    private struct Reader {
        var bytes: Data

        mutating func take(_ count: Int) -> Data? {
            guard bytes.count >= count else { return nil }
            defer { bytes = bytes.dropFirst(count) }
            return bytes.prefix(count)
        }

        mutating func integer<Integer: FixedWidthInteger>(_ type: Integer.Type) -> Integer? {
            take(MemoryLayout<Integer>.size)?.reversed().reduce(0) { $0 << 8 | Integer($1) }
        }

        mutating func date() -> Double? { integer(UInt64.self).map(Double.init(bitPattern:)) }

        mutating func searchable() -> [String: String]? {
            guard let count = integer(UInt8.self) else { return nil }
            var texts: [String: String] = [:]
            for _ in 0..<count {
                guard let nameLength = integer(UInt16.self), let textLength = integer(UInt16.self),
                    let name = take(Int(nameLength)), let text = take(Int(textLength)),
                    let name = String(validating: name, as: UTF8.self),
                    let text = String(validating: text, as: UTF8.self),
                    texts.updateValue(text, forKey: name) == nil
                else { return nil }
            }
            return texts
        }
    }
}

/// The names and values of the Keychain's constants (`SecItemConstants.c` in Apple's Security), which its dictionaries
/// contain. Names are Apple's without the prefix `kSec`.
public enum KeychainName {
    // MARK: Keys of queries

    /// `kSecClass`.
    public static let `class` = "class"

    /// `kSecMatchLimit`.
    public static let matchLimit = "m_Limit"

    /// `kSecReturnData`.
    public static let returnData = "r_Data"

    /// `kSecReturnAttributes`.
    public static let returnAttributes = "r_Attributes"

    /// `kSecReturnRef`.
    public static let returnRef = "r_Ref"

    /// `kSecReturnPersistentRef`.
    public static let returnPersistentRef = "r_PersistentRef"

    /// `kSecValueData`.
    public static let valueData = "v_Data"

    /// `kSecValuePersistentRef`.
    public static let valuePersistentRef = "v_PersistentRef"

    /// `kSecUseAuthenticationUI`.
    public static let useAuthenticationUI = "u_AuthUI"

    /// `kSecUseAuthenticationContext`.
    public static let useAuthenticationContext = "u_AuthCtx"

    /// `kSecUseDataProtectionKeychain`.
    public static let useDataProtectionKeychain = "nleg"

    // MARK: Values of queries

    /// `kSecMatchLimitOne`.
    public static let matchLimitOne = "m_LimitOne"

    /// `kSecMatchLimitAll`.
    public static let matchLimitAll = "m_LimitAll"

    /// `kSecUseAuthenticationUIFail`.
    public static let useAuthenticationUIFail = "u_AuthUIF"

    /// `kSecUseAuthenticationUISkip`.
    public static let useAuthenticationUISkip = "u_AuthUIS"

    /// `kSecAttrSynchronizableAny`.
    public static let synchronizableAny = "syna"

    // MARK: Classes

    /// `kSecClassGenericPassword`.
    public static let classGenericPassword = "genp"

    /// `kSecClassInternetPassword`.
    public static let classInternetPassword = "inet"

    /// `kSecClassCertificate`.
    public static let classCertificate = "cert"

    /// `kSecClassKey`.
    public static let classKey = "keys"

    /// `kSecClassIdentity`.
    public static let classIdentity = "idnt"

    // MARK: Attributes

    /// `kSecAttrAccessGroup`.
    public static let attrAccessGroup = "agrp"

    /// `kSecAttrAccessible`.
    public static let attrAccessible = "pdmn"

    /// `kSecAttrAccessControl`.
    public static let attrAccessControl = "accc"

    /// `kSecAttrSynchronizable`.
    public static let attrSynchronizable = "sync"

    /// `kSecAttrCreationDate`.
    public static let attrCreationDate = "cdat"

    /// `kSecAttrModificationDate`.
    public static let attrModificationDate = "mdat"

    /// `kSecAttrLabel`.
    public static let attrLabel = "labl"

    /// `kSecAttrComment`.
    public static let attrComment = "icmt"

    /// `kSecAttrCreator`.
    public static let attrCreator = "crtr"

    /// `kSecAttrAccount`.
    public static let attrAccount = "acct"

    /// `kSecAttrService`.
    public static let attrService = "svce"

    /// `kSecAttrGeneric`.
    public static let attrGeneric = "gena"

    /// `kSecAttrServer`.
    public static let attrServer = "srvr"

    /// `kSecAttrProtocol`.
    public static let attrProtocol = "ptcl"

    /// `kSecAttrAuthenticationType`.
    public static let attrAuthenticationType = "atyp"

    /// `kSecAttrPort`.
    public static let attrPort = "port"
}

/// A value in a query of the Keychain, or of an item's attribute.
public enum KeychainValue: Sendable, Hashable {
    /// A `CFString`.
    case text(String)
    /// A `CFData`.
    case data(Data)
    /// A `CFNumber`.
    case int(Int64)
    /// A `CFBoolean`.
    case bool(Bool)
    /// A `CFDate`.
    case date(Date)
    /// A `SecAccessControl`: the class that it protects the item with, as in `kSecAttrAccessible`, and what the user must
    /// do.
    case accessControl(String, KeychainAccessControl)
}

extension KeychainValue {
    package var text: String? {
        switch self {
        case .text(let text): text
        // An attribute comes back as it was written, and others may have written bytes.
        case .data(let data): String(validating: data, as: UTF8.self)
        default: nil
        }
    }

    package var data: Data? {
        switch self {
        case .data(let data): data
        case .text(let text): Data(text.utf8)
        default: nil
        }
    }

    package var date: Date? { if case .date(let date) = self { date } else { nil } }

    package var accessControl: (accessibility: String, flags: KeychainAccessControl)? {
        if case .accessControl(let accessibility, let flags) = self { (accessibility, flags) } else { nil }
    }

    package var int: Int64? {
        switch self {
        case .int(let int): int
        case .bool(let bool): bool ? 1 : 0
        default: nil
        }
    }
}

extension KeychainValue: CustomStringConvertible, CustomReflectable {
    /// The kind of value, not the value.
    public var description: String {
        switch self {
        case .text: "text"
        case .data(let data): "\(data.count) bytes"
        case .int: "number"
        case .bool: "boolean"
        case .date: "date"
        case .accessControl: "access control"
        }
    }

    /// Keeps `dump(_:)` from showing the value.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
