@_spi(Extensions) public import LockboxCore
public import LockboxPlatform

/// Stores items in Apple's Keychain, as generic passwords.
///
/// ```swift
/// let lockbox = try Lockbox(keyPrefix: "com.example.app", backend: KeychainBackend())
/// ```
///
/// An app creates it explicitly; Lockbox's own default is files on every system. It uses the data-protection
/// keychain only, also on macOS, where the program must be signed with an entitlement for it. Without one, calls
/// throw ``LockboxError/keychainFailure(operation:status:reason:)`` with the status -34018.
///
/// > Important: This backend is tested on a simulation of the Keychain's documented rules. Its binding to Apple's Security
/// > framework has been parsed for macOS and iOS. It has not been compiled or run there.
///
/// An item has the prefix as its service and the key as its account, both in Unicode normalization form C. The
/// value, the class, the label and the comment are where Apple has them; everything else is in `kSecAttrGeneric`
/// with a random revision. A change names the revision that it replaces, so it takes effect only if no other
/// process has changed the item since it was read. No lock is needed for that.
///
/// Differences between the Keychain and other backends:
///
/// - Attributes of locked items cannot be read. While items of a class are locked, a list that would have them
///   throws ``LockboxError/interactionNotAllowed(_:)``; it never leaves them out.
/// - The system deletes an item that it cannot decrypt, and counts it as absent.
/// - Whether the device is locked is not known before an item is read, so there is no ``LockboxBackend/lockState``.
/// - No call shows a prompt, unless the backend has an access control. Without one, other programs' items that need a
///   fingerprint or a passcode to be read count as locked.
public struct KeychainBackend: LockboxBackend {
    /// The largest value: 1 MiB.
    ///
    /// Apple states no limit. The Keychain decrypts whole items in a process that all programs share, warns of values
    /// above 32 KiB in its log, and is not made for files.
    public var maximumValueSize: Int { 1 << 20 }

    /// How often a change starts again because another writer was faster.
    static let maximumRounds = 64

    /// Waits for up to 4 ms after more than eight lost rounds. Without that, all 64 can be lost within a few milliseconds.
    static func pause(after rounds: Int) {
        if rounds > 8 { usleep(.random(in: 0..<4000)) }
    }

    let calls: any KeychainCalls
    private let accessGroup: String?
    private let isSynchronizable: Bool
    private let accessControl: KeychainAccessControl
    private let isProbed = Guarded(false)

    /// Creates a backend.
    ///
    /// - Parameters:
    ///   - calls: The Keychain. By default the system's.
    ///   - accessGroup: The access group of the items, such as `TEAM.com.example.shared`. If `nil`, new items get the
    ///     program's first group, and items of all its groups are found: an item that is in two of them cannot be read,
    ///     and removals remove both. So a program with several groups should name one.
    ///   - isSynchronizable: Whether the items are those that iCloud Keychain copies to the user's other devices.
    ///     Items of classes that are bound to this device are then refused. The two kinds are kept apart. The records of
    ///     migrations stay on this device.
    ///   - accessControl: The user's task before the Keychain returns an item that this backend has written. Calls
    ///     then wait for the user: a read and a list ask once, a change of an item asks to read it and again to replace it.
    ///     A removal and a new item ask for nothing. If the user declines, the call throws ``LockboxError/userCanceled``.
    ///     Must be empty if `isSynchronizable` is true.
    public init(
        _ calls: any KeychainCalls = SystemKeychain(),
        accessGroup: String? = nil,
        isSynchronizable: Bool = false,
        accessControl: KeychainAccessControl = []
    ) {
        self.calls = calls
        self.accessGroup = accessGroup
        self.isSynchronizable = isSynchronizable
        self.accessControl = accessControl
    }

    // MARK: Reading

    /// Returns an item with its attributes, or `nil` if it is absent.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func item(for key: ItemKey, now: Date?) throws(LockboxError) -> StoredItem? {
        try read(key).flatMap { $0.item.attributes.isExpired(at: now) ? nil : $0.item }
    }

    /// Returns the attributes of an item, or `nil` if it is absent. Throws for a locked item.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func attributes(for key: ItemKey, now: Date?) throws(LockboxError) -> ItemAttributes? {
        guard let found = try one(query(key), key, withValue: false) else { return nil }
        let attributes = try KeychainMetadata.attributes(found, key.name)
        return attributes.isExpired(at: now) ? nil : attributes
    }

    // MARK: Changing

    /// Atomically creates, replaces or removes an item.
    ///
    /// If another writer was faster, the change starts again, from the ninth time on after up to 4 ms.
    ///
    /// - Throws: ``LockboxError/conflict(record:)`` if other writers were faster 64 times;
    ///   ``LockboxError/keychainFailure(operation:status:reason:)`` with the status -25299 if another program's item
    ///   has this service and account.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func update(_ key: ItemKey, now: Date?, _ change: (StoredItem?) throws -> StoredItem?) throws {
        for round in 0..<Self.maximumRounds {
            Self.pause(after: round)
            let old = try read(key)
            let new = try change(old.flatMap { $0.item.attributes.isExpired(at: now) ? nil : $0.item })
            if try replace(old, with: new, key) { return }
        }
        throw LockboxError.conflict(record: key.name)
    }

    /// Removes an item, readable or not.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func remove(_ key: ItemKey) throws(LockboxError) { try delete(query(key)) }

    /// Removes all items with a prefix or none, also while they are locked.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func removeAll(prefix: String) throws(LockboxError) {
        try delete(query(prefix: prefix))
    }

    // MARK: Unreadable items

    /// Removes an item by its persistent reference, in hexadecimal, readable or not.
    @discardableResult
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func remove(record: String) throws(LockboxError) -> Bool {
        guard let reference = Data(hexadecimal: record),
            reference.starts(with: KeychainName.classGenericPassword.utf8)
        else { throw LockboxError.invalidKey(reason: "no item of the Keychain has this record") }
        let query: KeychainCalls.Attributes = [
            KeychainName.valuePersistentRef: .data(reference),
            KeychainName.useDataProtectionKeychain: .bool(true),
        ]
        // A reference can be any program's, and a query with one may name nothing else.
        for item in try all(query, withValue: false) where item[KeychainName.attrCreator]?.int == Self.creator
        {
            try delete(query)
        }
        return true
    }

    // MARK: One item

    /// An item and the metadata that its next change names.
    struct Revision {
        let item: StoredItem
        let metadata: KeychainValue
    }

    func read(_ key: ItemKey) throws(LockboxError) -> Revision? {
        guard let found = try one(query(key), key, withValue: true) else { return nil }
        let attributes = try KeychainMetadata.attributes(found, key.name)
        let data = found[KeychainName.valueData]?.data ?? Data()  // an empty value is left out
        guard data.count == attributes.size, let metadata = found[KeychainName.attrGeneric] else {
            throw LockboxError.corrupt(
                record: .record(key.name),
                reason: "its value is not as long as its metadata says"
            )
        }
        let value = try ArchivedValue(data: data, format: attributes.format)
        let item = try StoredItem(
            key: key,
            value: value,
            accessibility: attributes.accessibility,
            created: attributes.created,
            modified: attributes.modified,
            expires: attributes.expires,
            label: attributes.label,
            comment: attributes.comment,
            searchable: attributes.searchable
        )
        return Revision(item: item, metadata: metadata)
    }

    /// Returns whether the item was still the old one.
    private func replace(_ old: Revision?, with new: StoredItem?, _ key: ItemKey) throws(LockboxError) -> Bool
    {
        guard let new else {
            guard let old else { return true }
            let status = calls.delete(query(key, old.metadata))
            return try isDone(status, KeychainStatus.itemNotFound, "SecItemDelete", nil)
        }
        let attributes = try attributes(of: new)
        let accessibility = new.attributes.accessibility
        if let old {
            let status = calls.update(query(key, old.metadata), attributes)
            return try isDone(status, KeychainStatus.itemNotFound, "SecItemUpdate", accessibility)
        }
        let added = query(key).merging(attributes) { $1 }
        if try isDone(calls.add(added), KeychainStatus.duplicateItem, "SecItemAdd", accessibility) {
            return true
        }
        try checkForForeignItem(key)
        return false
    }

    /// - Parameter lost: The status if another writer was faster.
    private func isDone(_ status: Int32, _ lost: Int32, _ operation: String, _ accessibility: Accessibility?)
        throws(LockboxError) -> Bool
    {
        if status == KeychainStatus.success { return true }
        if status == lost { return false }
        throw LockboxError(status, operation, accessibility)
    }

    func attributes(of item: StoredItem) throws(LockboxError) -> KeychainCalls.Attributes {
        let attributes = item.attributes
        if attributes.size > maximumValueSize {
            throw .valueTooLarge(size: attributes.size, limit: maximumValueSize)
        }
        // The codes of classes that are bound to this device: aku, cku, dku and akpu.
        if isSynchronizable, attributes.accessibility.rawValue.hasSuffix("u"),
            !ItemKey.isReserved(prefix: item.key.prefix)
        {
            throw .invalidAttribute(
                name: "accessibility",
                reason:
                    "\(attributes.accessibility) is bound to this device and cannot be synchronized"
            )
        }
        if !accessControl.isEmpty, isSynchronizable || !accessControl.isOfPassword {
            throw .invalidAttribute(
                name: "accessControl",
                reason: isSynchronizable
                    ? "synchronizable items cannot have one"
                    : "it has no flag that asks the user, or one that is only for keys"
            )
        }
        // An update cannot remove an attribute, so the metadata says whether there is a label and a comment.
        var all: KeychainCalls.Attributes = [
            KeychainName.valueData: .data(item.value.data),
            KeychainName.attrGeneric: .data(KeychainMetadata.bytes(attributes)),
            KeychainName.attrLabel: .text(attributes.label ?? ""),
            KeychainName.attrComment: .text(attributes.comment ?? ""),
        ]
        let accessibility = attributes.accessibility.rawValue
        if accessControl.isEmpty {
            all[KeychainName.attrAccessible] = .text(accessibility)
        } else {
            all[KeychainName.attrAccessControl] = .accessControl(accessibility, accessControl)
        }
        return all
    }

    // MARK: Queries

    /// All items of this backend.
    var query: KeychainCalls.Attributes {
        var query: KeychainCalls.Attributes = [
            KeychainName.class: .text(KeychainName.classGenericPassword),
            KeychainName.attrCreator: .int(Self.creator),
            KeychainName.attrSynchronizable: .bool(isSynchronizable),
            KeychainName.useDataProtectionKeychain: .bool(true),
        ]
        query[KeychainName.attrAccessGroup] = accessGroup.map(KeychainValue.text)
        return query
    }

    /// The letters LKBX. Tells Lockbox's items from others that have the same service.
    package static let creator: Int64 = 0x4C4B_4258

    /// Lockbox's own records stay on this device, under another service than those of the backend whose items do.
    func query(prefix: String) -> KeychainCalls.Attributes {
        var query = query
        query[KeychainName.attrService] = .text(prefix.canonical)
        if isSynchronizable, ItemKey.isReserved(prefix: prefix) {
            query[KeychainName.attrService] = .text("\(prefix.canonical)\0synchronizable")
            query[KeychainName.attrSynchronizable] = .bool(false)
        }
        return query
    }

    func query(_ key: ItemKey, _ metadata: KeychainValue? = nil) -> KeychainCalls.Attributes {
        var query = query(prefix: key.prefix)
        query[KeychainName.attrAccount] = .text(key.key.canonical)
        query[KeychainName.attrGeneric] = metadata
        return query
    }

    private func one(
        _ query: KeychainCalls.Attributes,
        _ key: ItemKey,
        withValue: Bool
    ) throws(LockboxError) -> KeychainCalls.Attributes? {
        let found = try all(query, withValue: withValue)
        if found.count > 1 { throw severalGroups(key) }
        return found.first
    }

    func all(
        _ query: KeychainCalls.Attributes,
        withValue: Bool
    ) throws(LockboxError) -> [KeychainCalls.Attributes] {
        let answer = answer(query, withValue: withValue)
        switch answer.status {
        case KeychainStatus.success: return answer.items
        case KeychainStatus.itemNotFound:
            try checkEntitlement()
            return []
        case KeychainStatus.interactionNotAllowed:
            throw LockboxError.interactionNotAllowed(lockedClass(query))
        default: throw LockboxError(answer.status, "SecItemCopyMatching", nil)
        }
    }

    private func answer(_ query: KeychainCalls.Attributes, withValue: Bool)
        -> (status: Int32, items: [KeychainCalls.Attributes])
    {
        var query = query
        query[KeychainName.matchLimit] = .text(KeychainName.matchLimitAll)
        query[KeychainName.returnAttributes] = .bool(true)
        query[KeychainName.returnPersistentRef] = .bool(true)
        if withValue { query[KeychainName.returnData] = .bool(true) }
        if accessControl.isEmpty, query[KeychainName.useAuthenticationUI] == nil {
            query[KeychainName.useAuthenticationUI] = .text(KeychainName.useAuthenticationUIFail)
        }
        return calls.copyMatching(query)
    }

    /// The attributes of a locked item cannot be read, so its class is looked for. The user is not asked for others.
    private func lockedClass(_ query: KeychainCalls.Attributes) -> Accessibility {
        var query = query
        if !accessControl.isEmpty {
            query[KeychainName.useAuthenticationUI] = .text(KeychainName.useAuthenticationUISkip)
        }
        return Accessibility.allCases.first { accessibility in
            query[KeychainName.attrAccessible] = .text(accessibility.rawValue)
            return answer(query, withValue: true).status == KeychainStatus.interactionNotAllowed
        } ?? .whenUnlocked
    }

    /// A reserved prefix, that of the items by which Lockbox itself tests a store: if a process is killed, the next test removes
    /// what it leaves.
    static let probePrefix = "\0transfer"

    /// Another program's item may have this item's place. Lockbox's queries do not find it. The user is not asked for it.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func checkForForeignItem(_ key: ItemKey) throws(LockboxError) {
        var own = query(key)
        own[KeychainName.useAuthenticationUI] = .text(KeychainName.useAuthenticationUIFail)
        var query = own
        query[KeychainName.attrCreator] = nil
        let answer = answer(query, withValue: false)
        let isForeign =
            switch answer.status {
            case KeychainStatus.success:
                answer.items.contains { $0[KeychainName.attrCreator]?.int != Self.creator }
            case KeychainStatus.interactionNotAllowed:
                self.answer(own, withValue: false).status == KeychainStatus.itemNotFound
            default: false
            }
        guard isForeign else { return }
        throw LockboxError.keychainFailure(
            operation: "SecItemAdd",
            status: KeychainStatus.duplicateItem,
            reason:
                "another program's item has the service and account of \(key.name); use another prefix or key"
        )
    }

    /// On macOS, a program without the entitlement is told that there is no item, whichever it looks for. Only a
    /// removal says why.
    package func checkEntitlement() throws(LockboxError) {
        if isProbed.withLock({ $0 }) { return }
        let name = String(UInt64.random(in: .min ... .max), radix: 16)
        var query = query
        query[KeychainName.attrService] = .text(Self.probePrefix)
        query[KeychainName.attrAccount] = .text(name)
        try delete(query)
        isProbed.withLock { $0 = true }
    }

    private func delete(_ query: KeychainCalls.Attributes) throws(LockboxError) {
        let status = calls.delete(query)
        if status == KeychainStatus.success || status == KeychainStatus.itemNotFound { return }
        throw LockboxError(status, "SecItemDelete", nil)
    }

    // MARK: Errors

    func severalGroups(_ key: ItemKey) -> LockboxError {
        .keychainFailure(
            operation: "SecItemCopyMatching",
            status: KeychainStatus.duplicateItem,
            reason: "several access groups have \(key.name); name one of them"
        )
    }
}

extension ItemKey {
    /// How errors name the item.
    var name: String { "the item for the key \(String(reflecting: key))" }
}

extension String {
    /// In Unicode normalization form C.
    var canonical: String { String(decoding: _nfcCodeUnits, as: UTF8.self) }
}
