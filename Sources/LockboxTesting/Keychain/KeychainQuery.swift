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

    /// Nil for identities, which have no table.
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

    /// - Throws: What the Keychain answers to it.
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

    /// An attribute that the class does not have, and one that nobody has, are the same error
    /// (`query_add_attribute`).
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

    /// What an item that needs the user does (`query_add_use`).
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
    /// What an update changes: attributes and the value, nothing else (`query_update_applier`). Every other name is
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
