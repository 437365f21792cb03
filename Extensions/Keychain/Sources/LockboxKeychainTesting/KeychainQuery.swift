import LockboxCore
import LockboxKeychain
import LockboxPlatform

/// A query or a new item, taken apart and checked (`query_applier` and what it calls, in `SecDbQuery.c`).
struct KeychainQuery {
    enum Interaction { case allowed, fails, skips }

    /// The four kinds of results that can be asked for.
    struct Results: OptionSet {
        let rawValue: Int

        static let data = Results(rawValue: 1)
        static let attributes = Results(rawValue: 2)
        static let ref = Results(rawValue: 4)
        static let persistentRef = Results(rawValue: 8)
    }

    /// The table of the class, or nil for identities, which have none.
    private(set) var table: KeychainSchema?
    private(set) var isIdentity = false
    private(set) var attributes: KeychainCalls.Attributes = [:]
    private(set) var data: Data?
    private(set) var persistentRef: Data?
    /// A persistent reference of the file keychain.
    var fileReference: Data?
    private(set) var limit: Int?
    private(set) var hasMatch = false
    private(set) var results: Results = []
    private(set) var interaction = Interaction.allowed
    private(set) var usesDataProtection = false

    /// - Throws: The Keychain's answer to it.
    init(_ query: KeychainCalls.Attributes) throws(KeychainRefusal) {
        try findClass(query)
        for (name, value) in query {
            switch name {
            case KeychainName.class: break
            // `SecItem.m` takes it out.
            case KeychainName.useDataProtectionKeychain: usesDataProtection = value == .bool(true)
            case let name where name.utf8.count == 4: try addAttribute(name, value)
            case let name where name.hasPrefix("m_"): try addMatch(name, value)
            case let name where name.hasPrefix("r_"): try addResult(name, value)
            case let name where name.hasPrefix("u_"): try addUse(name, value)
            case let name where name.hasPrefix("v_"): try addValue(name, value)
            case let name where name.hasPrefix("f_"): break
            default: throw .parameter
            }
        }
        // Neither may narrow a persistent reference (`s3dl_copy_matching` in `SecItemDb.c`).
        if persistentRef != nil, !attributes.isEmpty { throw .parameter }
        try checkAccess()
    }

    /// A class, or a persistent reference, which begins with it. Unknown ones have a code of their own
    /// (`query_set_class`).
    private mutating func findClass(_ query: KeychainCalls.Attributes) throws(KeychainRefusal) {
        let given = query[KeychainName.class]
        guard let name = given?.text ?? query[KeychainName.valuePersistentRef]?.data.map(Self.className)
        else {
            throw .parameter
        }
        if name == KeychainName.classIdentity {
            isIdentity = true
            return
        }
        guard let table = KeychainSchema.tables.first(where: { $0.name == name }) else {
            throw KeychainRefusal(KeychainStatus.noSuchClass)
        }
        self.table = table
    }

    private static func className(_ reference: Data) -> String {
        String(decoding: reference.prefix(4), as: UTF8.self)
    }

    /// An attribute that the class does not have, and one that no class has, are the same error (`query_add_attribute`).
    private mutating func addAttribute(_ name: String, _ value: KeychainValue) throws(KeychainRefusal) {
        let kind =
            table.map { $0.kinds[name] } ?? KeychainSchema.tables[2].kinds[name]
            ?? KeychainSchema.tables[3].kinds[name]
        guard let kind else { throw KeychainRefusal(KeychainStatus.noSuchAttribute) }
        if name == KeychainName.attrSynchronizable, value == .text(KeychainName.synchronizableAny) {
            attributes[name] = value
            return
        }
        guard let converted = KeychainSchema.converted(value, to: kind) else { throw .parameter }
        attributes[name] = converted
    }

    /// A limit is one, all or a number (`query_add_match`).
    private mutating func addMatch(_ name: String, _ value: KeychainValue) throws(KeychainRefusal) {
        hasMatch = true
        guard name == KeychainName.matchLimit else { throw KeychainRefusal(KeychainStatus.unimplemented) }
        switch value {
        case .text(KeychainName.matchLimitOne): limit = 1
        case .text(KeychainName.matchLimitAll): limit = .max
        case .int(let number) where number > 0: limit = Int(number)
        default: throw .parameter
        }
    }

    /// Only booleans (`query_add_return`): 1 is none.
    private mutating func addResult(_ name: String, _ value: KeychainValue) throws(KeychainRefusal) {
        guard case .bool(let isAsked) = value else { throw .parameter }
        let result: Results
        switch name {
        case KeychainName.returnData: result = .data
        case KeychainName.returnAttributes: result = .attributes
        case KeychainName.returnRef: result = .ref
        case KeychainName.returnPersistentRef: result = .persistentRef
        default: throw .parameter
        }
        if isAsked { results.insert(result) }
    }

    /// The effect on a query of an item that needs the user (`query_add_use`).
    private mutating func addUse(_ name: String, _ value: KeychainValue) throws(KeychainRefusal) {
        switch (name, value) {
        case (KeychainName.useAuthenticationUI, .text(KeychainName.useAuthenticationUIFail)):
            interaction = .fails
        case (KeychainName.useAuthenticationUI, .text(KeychainName.useAuthenticationUISkip)):
            interaction = .skips
        case (KeychainName.useAuthenticationUI, .text): interaction = .allowed
        case (KeychainName.useAuthenticationContext, _): break
        default: throw .parameter
        }
    }

    /// The value is bytes, and a persistent reference has 20 of them (`query_add_value`). References of other kinds are
    /// objects, which these calls do not pass.
    private mutating func addValue(_ name: String, _ value: KeychainValue) throws(KeychainRefusal) {
        switch (name, value) {
        case (KeychainName.valueData, .data(let bytes)): data = bytes
        case (KeychainName.valuePersistentRef, .data(let bytes)) where bytes.count == 20:
            persistentRef = bytes
        default: throw .parameter
        }
    }

    /// A class that protects the item must be one (`kc_parse_keyclass` in `SecDbKeychainItem.m`). Beside it there is no access
    /// control, which has a class of its own (`query_set_access_control` in `SecDbQuery.c`). An item with one is not
    /// synchronizable (`SecItemAuthDoQuery` in `SecItem.m`).
    private mutating func checkAccess() throws(KeychainRefusal) {
        if let control = attributes[KeychainName.attrAccessControl]?.accessControl {
            if attributes[KeychainName.attrAccessible] != nil { throw .parameter }
            if attributes[KeychainName.attrSynchronizable] == .int(1) { throw .parameter }
            try Self.check(control.flags)
            attributes[KeychainName.attrAccessible] = .text(control.accessibility)
        }
        if let given = attributes[KeychainName.attrAccessible],
            given.text.map(KeychainSchema.accessibilities.contains) != true
        {
            throw .parameter
        }
    }

    /// Flags that do not go together make no access control (`SecAccessControlCreateWithFlags` in `SecAccessControl.m`).
    private static func check(_ flags: KeychainAccessControl) throws(KeychainRefusal) {
        let forUse = KeychainAccessControl(rawValue: 1 << 30 | 1 << 31)
        if flags.isSuperset(of: [.or, .and]) || flags.isSuperset(of: [.biometryAny, .biometryCurrentSet])
            || flags.contains(.userPresence) && flags.subtracting(forUse) != .userPresence
        {
            throw .parameter
        }
    }
}

extension KeychainQuery {
    /// The changes of an update: attributes and the value, nothing else (`query_update_applier`). Every other name is
    /// looked for among the attributes, and is none.
    static func changes(_ attributes: KeychainCalls.Attributes, _ table: KeychainSchema)
        throws(KeychainRefusal)
        -> KeychainQuery
    {
        for name in attributes.keys where name.utf8.count != 4 && name != KeychainName.valueData {
            throw KeychainRefusal(KeychainStatus.noSuchAttribute)
        }
        if attributes[KeychainName.useDataProtectionKeychain] != nil {
            throw KeychainRefusal(KeychainStatus.noSuchAttribute)
        }
        if attributes[KeychainName.attrSynchronizable] == .text(KeychainName.synchronizableAny) {
            throw .parameter
        }
        var attributes = attributes
        attributes[KeychainName.class] = .text(table.name)
        return try KeychainQuery(attributes)
    }
}

/// An item of the simulated Keychain.
struct KeychainItem {
    let table: KeychainSchema
    var attributes: KeychainCalls.Attributes
    var data: Data?
    let reference: Data

    init(
        _ table: KeychainSchema,
        _ attributes: KeychainCalls.Attributes,
        _ data: Data?,
        _ reference: Data? = nil
    ) {
        self.table = table
        self.attributes = attributes
        self.data = data
        let random = Data((0..<16).map { _ in UInt8.random(in: .min ... .max) })
        self.reference = reference ?? Data(table.name.utf8) + random
    }

    /// Absent parts count as their defaults, so two items without an account have the same.
    var key: [String: KeychainValue] {
        var key = table.key.merging(attributes) { $1 }.filter { table.key[$0.key] != nil }
        key = key.mapValues(KeychainSchema.compared)
        key[KeychainName.class] = .text(table.name)
        return key
    }

    /// Whether the user must do something before it can be read.
    var isAsked: Bool { attributes[KeychainName.attrAccessControl]?.accessControl?.flags.asksUser == true }

    var accessibility: String { attributes[KeychainName.attrAccessible]?.text ?? table.accessibility }

    func matches(_ query: KeychainQuery, groups: [String]) -> Bool {
        if let reference = query.persistentRef { return reference == self.reference && isIn(groups) }
        guard table.name == query.table?.name, isIn(groups) else { return false }
        var wanted = query.attributes
        // Without a word about it, only items that are not synchronized (`SecDbQuery.c`).
        let sync = wanted.removeValue(forKey: KeychainName.attrSynchronizable) ?? .int(0)
        if sync != .text(KeychainName.synchronizableAny), sync != attributes[KeychainName.attrSynchronizable]
        {
            return false
        }
        // Neither is a column (`query_set_access_control` in `SecDbQuery.c`).
        if wanted.removeValue(forKey: KeychainName.attrAccessControl) != nil {
            wanted[KeychainName.attrAccessible] = nil
        }
        return wanted.allSatisfy { name, value in
            attributes[name].map { KeychainSchema.compared($0) == KeychainSchema.compared(value) } ?? false
        }
    }

    private func isIn(_ groups: [String]) -> Bool {
        attributes[KeychainName.attrAccessGroup]?.text.map(groups.contains) ?? false
    }

    /// Returns what a query gets of the item; nil if it asks for nothing (`handle_result` in `SecItemDb.c`).
    func result(_ results: KeychainQuery.Results) -> KeychainCalls.Attributes? {
        if results.isEmpty { return nil }
        var result: KeychainCalls.Attributes = [:]
        // Data alone is empty if there is none. Beside other parts it is then left out.
        if results == .data { return [KeychainName.valueData: .data(data ?? Data())] }
        if results.contains(.ref) || results.contains(.attributes) { result = attributes }
        if results.contains(.ref) { result[KeychainName.class] = .text(table.name) }
        if results.contains(.data), let data, !data.isEmpty { result[KeychainName.valueData] = .data(data) }
        if results.contains(.persistentRef) { result[KeychainName.valuePersistentRef] = .data(reference) }
        return result
    }
}

/// The Keychain's tables: which attributes a class has, of what kind they are, and which of them are the primary key
/// (`SecItemSchema.c`).
struct KeychainSchema {
    /// The type that an attribute's values are converted to, and compared as.
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

    /// The attributes of every class.
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

    /// Returns what values are compared by: blobs by a digest of their bytes, everything else by value (`SecDbQuery.c`,
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

/// A call that the Keychain refuses, with its result code.
struct KeychainRefusal: Error {
    let status: Int32

    init(_ status: Int32) { self.status = status }

    static let parameter = KeychainRefusal(KeychainStatus.parameter)
}
