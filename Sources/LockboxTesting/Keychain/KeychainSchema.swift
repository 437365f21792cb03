import LockboxCore
import LockboxKeychain
import LockboxPlatform

/// The Keychain's tables: which attributes a class has, of what kind they are, and which of them are the primary key
/// (`SecItemSchema.c`).
struct KeychainSchema {
    /// What an attribute's values are converted to, and compared as.
    enum Kind {
        /// Text or bytes, compared as bytes: so NFC and NFD differ.
        case blob
        case data
        case number
        case date
        case text
        case accessControl
    }

    let name: String
    let kinds: [String: Kind]
    /// The primary key, with the values of absent parts.
    let key: [String: KeychainValue]
    /// The class of an item that names none.
    let accessibility: String

    private init(
        _ name: String,
        accessibility: String = "ak",
        _ kinds: [(Kind, String)],
        key: [(KeychainValue, String)]
    ) {
        func table<Value>(_ pairs: [(Value, String)]) -> [String: Value] {
            var table: [String: Value] = [:]
            for (value, names) in pairs {
                for name in names.split(separator: " ") { table[String(name)] = value }
            }
            return table
        }
        self.name = name
        self.accessibility = accessibility
        self.kinds = table(kinds + Self.common)
        self.key = table(key + [(.text(""), "agrp tkid vwht"), (.int(0), "sync")])
    }

    /// What every class has.
    private static let common: [(Kind, String)] = [
        (.date, "cdat mdat"), (.text, "agrp pdmn tkid vwht"), (.blob, "labl alis"), (.number, "sync"),
        (.accessControl, "accc"),
    ]

    private static let passwords: [(Kind, String)] = [
        (.blob, "desc icmt acct"), (.number, "crtr type scrp invi nega cusi prot"),
    ]

    private static let empty = KeychainValue.text("")
    private static let none = KeychainValue.data(Data())

    static let tables = [
        KeychainSchema("genp", passwords + [(.blob, "svce gena")], key: [(empty, "acct svce")]),
        KeychainSchema(
            "inet",
            passwords + [(.blob, "srvr sdmn path atyp"), (.number, "ptcl port")],
            key: [(empty, "acct sdmn srvr atyp path"), (.int(0), "ptcl port")]
        ),
        KeychainSchema(
            "cert",
            accessibility: "dk",
            [(.number, "ctyp cenc"), (.data, "subj issr slnr skid pkhh")],
            key: [(.int(0), "ctyp"), (none, "issr slnr")]
        ),
        KeychainSchema(
            "keys",
            [
                (.number, "kcls perm priv modi crtr type bsiz esiz sens asen extr next"),
                (.number, "encr decr drve sign vrfy snrc vyrc wrap unwp"), (.data, "klbl"), (.blob, "atag"),
                (.date, "sdat edat"),
            ],
            key: [
                (.int(0), "kcls type crtr bsiz esiz"),
                (.date(Date(timeIntervalSinceReferenceDate: 0)), "sdat edat"),
                (none, "klbl"), (empty, "atag"),
            ]
        ),
    ]

    /// The classes that protect an item (`kc_parse_keyclass` in `SecDbKeychainItem.m`).
    static let accessibilities = Set(Accessibility.allCases.map(\.rawValue))

    /// Returns an attribute's value as it is stored, or nil if it cannot be converted (`SecDbItem.c`: `copyBlob`,
    /// `copyData`, `copyNumber`, `copyString`, `copyDate`).
    static func converted(_ value: KeychainValue, to kind: Kind) -> KeychainValue? {
        switch (kind, value) {
        case (.blob, .text), (.blob, .data), (.blob, .int), (.data, .data), (.number, .int), (.date, .date),
            (.text, .text), (.accessControl, .accessControl):
            value
        case (.data, .text(let text)): .data(Data(text.utf8))
        case (.data, .int(let int)): .data(bytes(int))
        case (.number, .bool(let bool)): .int(bool ? 1 : 0)
        // Only a number that is written as one. Protocols such as "http" stay texts.
        case (.number, .text(let text)):
            Int32(text).flatMap { "\($0)" == text ? .int(Int64($0)) : nil } ?? value
        case (.text, .data(let data)): String(validating: data, as: UTF8.self).map(KeychainValue.text)
        default: nil
        }
    }

    /// What values are compared by: blobs by a digest of their bytes, everything else by value (`SecDbQuery.c`,
    /// `query_add_attribute_with_desc`).
    static func compared(_ value: KeychainValue) -> KeychainValue {
        switch value {
        case .text(let text): .data(Data(text.utf8))
        case .int, .data, .bool, .date, .accessControl: value
        }
    }

    private static func bytes(_ int: Int64) -> Data {
        withUnsafeBytes(of: Int32(truncatingIfNeeded: int).littleEndian) { Data($0) }
    }
}
