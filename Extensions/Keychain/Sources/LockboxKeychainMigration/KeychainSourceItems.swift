@_spi(Extensions) import Lockbox
import LockboxKeychain
import LockboxPlatform

/// Passwords of the Keychain that another library has written.
struct KeychainSourceItems: SourceItems {
    /// Where the library puts an item's key.
    enum Naming {
        /// Into the service, behind a prefix and a dot. There is no account, which the Keychain keeps as an empty one.
        case service(prefix: String)
        /// Into the account. The service is the same for all items.
        case account(service: String)
        /// Into the account of an internet password.
        case server(KeychainServer)
    }

    let calls: any KeychainCalls
    let naming: Naming
    let accessGroup: String?
    /// Whether the items are synchronizable, or nil for both kinds.
    let isSynchronizable: Bool?
    var keychains = MacKeychains.all
    /// An account that is not an item of the app.
    var otherAccount: String?

    func keys(unreadable: (UnreadableItem) throws -> Void) throws -> [String] {
        var query = query
        switch naming {
        case .service: query[KeychainName.attrAccount] = .text("")
        case .account(let service): query[KeychainName.attrService] = .text(service)
        case .server: break
        }
        var keys: Set<String> = []
        for found in try found(query, withValue: false) {
            if let key = key(found) {
                keys.insert(key)
            } else if mayHaveKey(found) {
                let name = "an item of the Keychain"
                let error = LockboxError.corrupt(
                    record: .record(name),
                    reason: "its account or service is no text"
                )
                let record = found[KeychainName.valuePersistentRef]?.data?.hexadecimal ?? ""
                try unreadable(UnreadableItem(key: nil, record: record, location: name, error: error))
            }
        }
        return keys.sorted()
    }

    /// Whether an item without a key is one of the library's, and not of another that uses the same Keychain.
    private func mayHaveKey(_ found: KeychainCalls.Attributes) -> Bool {
        switch naming {
        case .service(let prefix):
            let service = found[KeychainName.attrService]
            return service?.text == nil && service?.data?.starts(with: "\(prefix).".utf8) ?? false
        case .account, .server:
            return found[KeychainName.attrAccount]?.text == nil
                && found[KeychainName.attrAccount]?.data != nil
        }
    }

    private func key(_ found: KeychainCalls.Attributes) -> String? {
        switch naming {
        case .service(let prefix):
            guard let service = found[KeychainName.attrService]?.text else { return nil }
            let start = "\(prefix)."
            guard service.utf8.starts(with: start.utf8) else { return nil }
            return String(service.utf8.dropFirst(start.utf8.count))
        case .account, .server:
            guard let account = found[KeychainName.attrAccount]?.text, account != otherAccount else {
                return nil
            }
            return account
        }
    }

    /// The value is not asked for, so it does not matter whether it is locked.
    func holds(_ key: String) throws -> Bool {
        try key != otherAccount && !found(query(key), withValue: false).isEmpty
    }

    func item(forKey key: String) throws -> SourceItem? { try current(key)?.item }

    func remove(_ items: [String: SourceItem]) throws -> Set<String> {
        var changed: Set<String> = []
        for (key, item) in items.sorted(by: { $0.key < $1.key }) {
            do { if try !remove(key, item) { changed.insert(key) } } catch is MigrationRefusal {
                changed.insert(key)  // another program has added one, or an attribute
            }
        }
        return changed
    }

    /// Returns false if the item is no longer the one that was read.
    private func remove(_ key: String, _ item: SourceItem) throws -> Bool {
        guard let (found, current) = try current(key) else { return true }
        guard current.value == item.value, current.attributes == item.attributes else { return false }
        switch calls.delete(removal(key, found)) {
        case KeychainStatus.success: return true
        case KeychainStatus.itemNotFound: return try self.current(key) == nil
        case let status: throw LockboxError(status, "SecItemDelete", nil)
        }
    }

    /// Another writer may be faster than the removal, which removes the item as it was read, or nothing. macOS does not look
    /// at the date of modification. There, only an item that was made anew is another.
    private func removal(_ key: String, _ found: KeychainCalls.Attributes) -> KeychainCalls.Attributes {
        if let reference = found.fileReference { return reference }
        var query = query(key)
        for name in [
            KeychainName.attrAccessGroup, KeychainName.attrSynchronizable, KeychainName.attrCreationDate,
            KeychainName.attrModificationDate,
        ] { query[name] = found[name] }
        return query
    }

    private func current(_ key: String) throws -> (found: KeychainCalls.Attributes, item: SourceItem)? {
        if key == otherAccount { return nil }
        let record = "the Keychain's item for the key \(String(reflecting: key))"
        let all = try found(query(key), withValue: true)
        guard let found = all.first else { return nil }
        guard all.count == 1 else {
            throw MigrationRefusal.ambiguous(
                reason:
                    "\(all.count) Keychain items have the key \(String(reflecting: key)); pass keychains, accessGroup or "
                    + "isSynchronizable"
            )
        }
        let data = found[KeychainName.valueData]?.data ?? Data()  // an empty value is left out
        guard let modified = found[KeychainName.attrModificationDate]?.date else {
            throw LockboxError.corrupt(record: .record(record), reason: "it has no modification date")
        }
        func text(_ name: String) -> String? { found[name]?.text.flatMap { $0.isEmpty ? nil : $0 } }
        do {
            let attributes = try ItemAttributes(
                accessibility: found[KeychainName.attrAccessible]?.text.flatMap(Accessibility.init)
                    ?? .whenUnlocked,
                created: found[KeychainName.attrCreationDate]?.date ?? modified,
                modified: modified,
                label: text(KeychainName.attrLabel),
                comment: text(KeychainName.attrComment),
                searchable: searchable(found),
                size: data.count,
                format: .data
            )
            return (found, SourceItem(.bytes(data, isOwn: false), attributes: attributes))
        } catch LockboxError.invalidAttribute(let name, let reason) {
            throw MigrationRefusal.lossy("Lockbox has no place for its \(name): \(reason)")
        } catch { throw LockboxError.corrupt(record: .record(record), reason: error.description) }
    }

    /// Attributes that become searchable texts of their names. Several wrappers write some into each item.
    private static let kept = [
        "desc": "kSecAttrDescription", "gena": "kSecAttrGeneric", "crtr": "kSecAttrCreator",
        "type": "kSecAttrType",
        "invi": "kSecAttrIsInvisible", "nega": "kSecAttrIsNegative",
    ]

    private func searchable(_ found: KeychainCalls.Attributes) -> [String: String] {
        var texts: [String: String] = [:]
        if case .server(let server) = naming { texts = server.password(found).searchable }
        for (code, name) in Self.kept {
            guard let value = found[code], value.isSet else { continue }
            if let text = value.text ?? value.int.map({ "\($0)" }) {
                texts[name] = text
            } else {
                texts["\(name) base64"] = value.data?.base64EncodedString()
            }
        }
        return texts
    }

    private var query: KeychainCalls.Attributes {
        var query: KeychainCalls.Attributes = [
            KeychainName.useDataProtectionKeychain: .bool(true),
            KeychainName.attrSynchronizable: isSynchronizable.map(KeychainValue.bool)
                ?? .text(KeychainName.synchronizableAny),
        ]
        query[KeychainName.attrAccessGroup] = accessGroup.map(KeychainValue.text)
        guard case .server(let server) = naming else {
            query[KeychainName.class] = .text(KeychainName.classGenericPassword)
            return query
        }
        return query.merging(server.query) { $1 }
    }

    /// The texts as the library wrote them: the Keychain compares their bytes.
    private func query(_ key: String) -> KeychainCalls.Attributes {
        var query = query
        switch naming {
        case .service(let prefix):
            query[KeychainName.attrService] = .text("\(prefix).\(key)")
            query[KeychainName.attrAccount] = .text("")
        case .account(let service):
            query[KeychainName.attrService] = .text(service)
            query[KeychainName.attrAccount] = .text(key)
        case .server: query[KeychainName.attrAccount] = .text(key)
        }
        return query
    }

    // MARK: The two keychains

    private func found(_ query: KeychainCalls.Attributes, withValue: Bool) throws -> [KeychainCalls
        .Attributes]
    {
        var found: [KeychainCalls.Attributes] = []
        if keychains.contains(.dataProtection) { found += try inDataProtection(query, withValue) }
        // Its items are in no group and on no other device.
        if keychains.contains(.file), accessGroup == nil, isSynchronizable != true {
            found += try inFile(query, withValue)
        }
        // Lockbox's own items are none of another library's.
        return found.filter { $0[KeychainName.attrCreator]?.int != KeychainBackend.creator }
    }

    private func inDataProtection(_ query: KeychainCalls.Attributes, _ withValue: Bool) throws
        -> [KeychainCalls.Attributes]
    {
        var query = query
        query[KeychainName.matchLimit] = .text(KeychainName.matchLimitAll)
        if withValue { query[KeychainName.returnData] = .bool(true) }
        let items = try items(query)
        if items.isEmpty { try KeychainBackend(calls, accessGroup: accessGroup).checkEntitlement() }
        return items
    }

    /// A query that does not name the data-protection keychain is about both on macOS. Elsewhere there is only one. The file
    /// keychain does not give the values of several items at once.
    private func inFile(_ query: KeychainCalls.Attributes, _ withValue: Bool) throws -> [KeychainCalls
        .Attributes]
    {
        var query = query
        query[KeychainName.useDataProtectionKeychain] = nil
        query[KeychainName.attrSynchronizable] = nil
        query[KeychainName.matchLimit] = .text(KeychainName.matchLimitAll)
        query[KeychainName.returnPersistentRef] = .bool(true)
        let references = try items(query).compactMap(\.fileReference)
        guard withValue else { return try references.flatMap(items) }
        return try references.flatMap { try items($0.merging([KeychainName.returnData: .bool(true)]) { $1 }) }
    }

    private func items(_ query: KeychainCalls.Attributes) throws -> [KeychainCalls.Attributes] {
        var query = query
        query[KeychainName.returnAttributes] = .bool(true)
        query[KeychainName.useAuthenticationUI] = .text(KeychainName.useAuthenticationUIFail)
        if query[KeychainName.valuePersistentRef] != nil {
            query[KeychainName.returnPersistentRef] = .bool(true)
        }
        let (status, items) = calls.copyMatching(query)
        switch status {
        case KeychainStatus.success: return items
        case KeychainStatus.itemNotFound: return []
        default: throw LockboxError(status, "SecItemCopyMatching", nil)
        }
    }
}

extension KeychainValue {
    /// Whether it is another value than an item has that was made without the attribute.
    fileprivate var isSet: Bool { int.map { $0 != 0 } ?? !(data?.isEmpty ?? true) }
}

extension KeychainCalls.Attributes {
    /// A query for this item, if it is in the file keychain. References of the data-protection keychain begin with their
    /// class and have 20 bytes (`SecItemIsIOSPersistentReference` in Apple's `SecItem.cpp`).
    fileprivate var fileReference: KeychainCalls.Attributes? {
        guard let reference = self[KeychainName.valuePersistentRef]?.data else { return nil }
        let names = [KeychainName.classGenericPassword, KeychainName.classInternetPassword]
        if reference.count == 20, names.contains(where: { reference.starts(with: $0.utf8) }) { return nil }
        return [KeychainName.valuePersistentRef: .data(reference)]
    }
}

/// The attributes that the internet passwords of one server share in the Keychain.
struct KeychainServer: Sendable {
    let server: String
    let port: Int?
    /// `kSecAttrProtocol`, such as `htps`.
    let `protocol`: String?
    /// `kSecAttrAuthenticationType`, such as `dflt`.
    let authenticationType: String?

    var query: KeychainCalls.Attributes {
        var query: KeychainCalls.Attributes = [
            KeychainName.class: .text(KeychainName.classInternetPassword),
            KeychainName.attrServer: .text(server),
        ]
        query[KeychainName.attrPort] = port.map { .int(Int64($0)) }
        query[KeychainName.attrProtocol] = `protocol`.map(KeychainValue.text)
        query[KeychainName.attrAuthenticationType] = authenticationType.map(KeychainValue.text)
        return query
    }

    /// Lockbox has schemes where the Keychain has codes of four letters.
    func password(_ found: KeychainCalls.Attributes) -> InternetPassword {
        let scheme = `protocol`.map { code in
            switch code {
            case "htps": "https"
            case "imps": "imaps"
            default: code.filter { $0 != " " }
            }
        }
        let isDefault = authenticationType == "dflt"
        return InternetPassword(
            server: server,
            account: found[KeychainName.attrAccount]?.text ?? "",
            protocol: scheme,
            port: port,
            path: found["path"]?.text,
            securityDomain: found["sdmn"]?.text.flatMap { $0.isEmpty ? nil : $0 },
            authenticationType: isDefault ? nil : authenticationType
        )
    }
}

/// The keychains of macOS that a migration reads. Other systems have one, the data-protection keychain.
public struct MacKeychains: OptionSet, Sendable, Hashable {
    /// One bit for each keychain.
    public let rawValue: Int

    /// Creates a set.
    ///
    /// - Parameter rawValue: One bit for each keychain.
    public init(rawValue: Int) { self.rawValue = rawValue }

    /// The data-protection keychain, the only one on iOS. It needs an entitlement. Without one, `migrate` throws
    /// ``LockboxError/keychainFailure(operation:status:reason:)`` with the status -34018.
    public static let dataProtection = MacKeychains(rawValue: 1)

    /// The file-based keychain, which holds the items of programs that do not set `kSecUseDataProtectionKeychain`. It needs
    /// no entitlement. The system may ask the user before another program's item is read.
    public static let file = MacKeychains(rawValue: 2)

    /// Both. An item that exists in both is refused.
    public static let all: MacKeychains = [.dataProtection, .file]
}
