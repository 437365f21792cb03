@_spi(Extensions) import LockboxCore
public import LockboxKeychain
public import LockboxPlatform

/// A simulation of Apple's data-protection keychain, for tests on every system. Nothing is encrypted or written.
///
/// ```swift
/// import LockboxKeychain
///
/// let keychain = KeychainSimulator()
/// let lockbox = try Lockbox(keyPrefix: "com.example.app", backend: KeychainBackend(keychain))
/// keychain.isLocked = true
/// // …the app must not log the user out now
/// ```
///
/// It is strict: what the Keychain's source refuses, it refuses with the same result code. The rules are those of
/// Apple's Security 61901 (`apple-oss-distributions/Security` on GitHub, tag `Security-61901.0.87.0.1`), and each names
/// the file or function that it is taken from. They have been read there, not compared with a device. Where the Keychain would quietly do something other than what was asked, such as store
/// nothing and report success, the simulation refuses the call.
///
/// Not simulated: references to keys and certificates as objects, matching by policy, tokens and sharing groups; items that
/// cannot be decrypted; biometric enrollment. An identity cannot be deleted as such.
///
/// In macOS's file keychain, only passwords are simulated, without locks, access lists and prompts.
public final class KeychainSimulator: KeychainCalls {
    /// The system whose Keychain it behaves like.
    public enum Platform: String, Sendable, Hashable, CaseIterable {
        /// iOS, and the systems whose Keychain works like that of iOS.
        case iOS
        /// macOS. Without an entitlement, a query finds nothing. Without
        /// `KeychainName.useDataProtectionKeychain`, a call also searches and changes the file keychain.
        case macOS
    }

    /// How the user answers the prompt for an item with an access control.
    public enum User: String, Sendable, Hashable, CaseIterable {
        /// Authenticates with a fingerprint, the face or the passcode.
        case confirms
        /// Dismisses the prompt.
        case cancels
        /// Cannot be authenticated.
        case isNotRecognized
    }

    struct State: Sendable {
        var items: [KeychainItem] = []
        /// The items of macOS's file keychain.
        var fileItems: [KeychainItem] = []
        var isLocked = false
        var isBeforeFirstUnlock = false
        var hasPasscode = true
        var user = User.cancels
        /// Also of calls that are refused.
        let promptCount = Guarded(0)
        var accessGroups: [String]
    }

    let platform: Platform
    let now: @Sendable () -> Date
    private let state: Guarded<State>

    /// Creates an empty Keychain.
    ///
    /// - Parameters:
    ///   - platform: The system whose Keychain it behaves like.
    ///   - accessGroups: See ``accessGroups``.
    ///   - now: Returns the current time, for the items' dates.
    public init(
        platform: Platform = .iOS,
        accessGroups: [String] = ["TEAM.com.example.app"],
        now: @escaping @Sendable () -> Date = { Date() }
    ) {
        self.platform = platform
        self.now = now
        state = Guarded(State(accessGroups: accessGroups))
    }

    /// Whether the device is locked.
    public var isLocked: Bool {
        get { state.withLock { $0.isLocked } }
        set {
            state.withLock { state in
                state.isLocked = newValue
                if !newValue { state.isBeforeFirstUnlock = false }
            }
        }
    }

    /// Restarts the device: it is locked, and until it is unlocked, so are the items of the `afterFirstUnlock` classes
    /// (documentation of `kSecAttrAccessibleAfterFirstUnlock`).
    public func restart() {
        state.withLock { state in
            state.isLocked = true
            state.isBeforeFirstUnlock = true
        }
    }

    /// Whether the device has a passcode. When it is removed, so are the items whose class needs one
    /// (documentation of `kSecAttrAccessibleWhenPasscodeSetThisDeviceOnly`).
    public var hasPasscode: Bool {
        get { state.withLock { $0.hasPasscode } }
        set {
            state.withLock { state in
                state.hasPasscode = newValue
                if !newValue { state.items.removeAll { $0.accessibility == "akpu" } }
            }
        }
    }

    /// The program's access groups. New items get the first one. Without any, the program has no entitlement for the
    /// Keychain.
    ///
    /// Items of other groups stay where they are: set it to another program's groups to act as that program.
    public var accessGroups: [String] {
        get { state.withLock { $0.accessGroups } }
        set { state.withLock { $0.accessGroups = newValue } }
    }

    /// How the user answers the prompt for an item with an access control. By default, ``User/cancels``.
    public var user: User {
        get { state.withLock { $0.user } }
        set { state.withLock { $0.user = newValue } }
    }

    /// The number of prompts. A call that reads several such items prompts once.
    public var promptCount: Int { state.withLock { $0.promptCount.withLock { $0 } } }

    // MARK: The four calls

    /// Adds an item, as `SecItemAdd` does. Where there is a file keychain, it is preferred.
    public func add(_ attributes: Attributes) -> Int32 {
        if targets(attributes).file {
            return answer { state throws(KeychainRefusal) in try state.addToFile(attributes, self.now()) }
        }
        return answer { state throws(KeychainRefusal) in
            try state.add(self.query(attributes, .add, state), self.now())
        }
    }

    /// Returns what matches a query, as `SecItemCopyMatching` does.
    public func copyMatching(_ query: Attributes) -> (status: Int32, items: [Attributes]) {
        var (items, fileItems): ([Attributes], [Attributes]) = ([], [])
        let status = merged(query) {
            answer { state throws(KeychainRefusal) in
                if platform == .macOS, state.accessGroups.isEmpty {
                    throw KeychainRefusal(KeychainStatus.itemNotFound)
                }
                items = try state.copyMatching(self.query(query, .copyMatching, state))
            }
        } file: {
            answer { state throws(KeychainRefusal) in fileItems = try state.copyMatchingInFile(query) }
        }
        // Without a limit there is one result, and it is not the file's.
        if query[KeychainName.matchLimit] == nil, !items.isEmpty { return (status, items) }
        return (status, items + fileItems)
    }

    /// Changes all items that match, or none, as `SecItemUpdate` does.
    public func update(_ query: Attributes, _ attributes: Attributes) -> Int32 {
        merged(query) {
            answer { state throws(KeychainRefusal) in
                try state.update(self.query(query, .update, state), attributes, self.now())
            }
        } file: {
            answer { state throws(KeychainRefusal) in try state.updateFile(query, attributes, self.now()) }
        }
    }

    /// Removes all items that match, as `SecItemDelete` does.
    public func delete(_ query: Attributes) -> Int32 {
        merged(query) {
            answer { state throws(KeychainRefusal) in try state.delete(self.query(query, .delete, state)) }
        } file: {
            answer { state throws(KeychainRefusal) in try state.deleteInFile(query) }
        }
    }

    /// The keychains that a call is about. Only macOS has two.
    private func targets(_ query: Attributes) -> State.Targets {
        platform == .macOS ? State.targets(query) : State.Targets(dataProtection: true, file: false)
    }

    /// Merges the answers of two keychains (`SecItemMergeResults` in `SecItem.cpp`): the file's error counts, if there are two.
    private func merged(_ query: Attributes, _ call: () -> Int32, file: () -> Int32) -> Int32 {
        let targets = targets(query)
        guard targets.file else { return targets.dataProtection ? call() : KeychainStatus.parameter }
        guard targets.dataProtection else { return file() }
        let (status, fileStatus) = (call(), file())
        return status == KeychainStatus.success ? status : fileStatus
    }

    /// Each call is one transaction: if it is refused, nothing has changed.
    private func answer(_ body: (inout State) throws(KeychainRefusal) -> Void) -> Int32 {
        state.withLock { state in
            var new = state
            do throws(KeychainRefusal) { try body(&new) } catch { return error.status }
            state = new
            return KeychainStatus.success
        }
    }

    private enum Call { case add, copyMatching, update, delete }

    private func query(_ query: Attributes, _ call: Call, _ state: State) throws(KeychainRefusal)
        -> KeychainQuery
    {
        let query = platform == .macOS ? Self.translated(query, call) : query
        // `SecEntitlementError` in `SecItemServer.c`.
        if state.accessGroups.isEmpty { throw KeychainRefusal(KeychainStatus.missingEntitlement) }
        let checked = try KeychainQuery(query)
        try state.checkGroup(checked)
        return checked
    }

    /// The names that macOS takes out of a query before it looks at it (`SecItemCopyTranslatedAttributes` in `SecItem.cpp`): the
    /// date of modification always, so that it is no condition there, and what iOS would refuse.
    private static func translated(_ query: Attributes, _ call: Call) -> Attributes {
        query.filter { name, _ in
            switch name {
            case KeychainName.attrModificationDate: false
            case KeychainName.valueData: call == .add
            case KeychainName.attrSynchronizable: query[KeychainName.valuePersistentRef] == nil
            case let name where name.hasPrefix("m_"): call == .copyMatching
            case let name where name.hasPrefix("r_"): call == .copyMatching || call == .add
            default: true
            }
        }
    }
}

extension KeychainSimulator: CustomStringConvertible, CustomReflectable {
    /// The type's name. Does not show any items.
    public var description: String { "KeychainSimulator" }

    /// Keeps `dump(_:)` from showing the items.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension KeychainSimulator.State {
    /// An access group that is named must be one of the program's (`SecEntitlementErrorForExplicitAccessGroup` in
    /// `SecItemServer.c`).
    func checkGroup(_ query: KeychainQuery) throws(KeychainRefusal) {
        guard let group = query.attributes[KeychainName.attrAccessGroup]?.text else { return }
        if !accessGroups.contains(group) { throw KeychainRefusal(KeychainStatus.missingEntitlement) }
    }

    /// `SecServerItemAdd` in `SecItemServer.c`, `s3dl_query_add` in `SecItemDb.c`.
    mutating func add(_ query: KeychainQuery, _ now: Date) throws(KeychainRefusal) {
        // Results need somewhere to be put, which `KeychainCalls.add` does not give. With a match the source reports
        // success and stores nothing. An identity is added by reference, in two parts.
        guard query.results.isEmpty, !query.hasMatch, query.persistentRef == nil, let table = query.table,
            query.interaction != .skips,
            query.attributes[KeychainName.attrSynchronizable] != .text(KeychainName.synchronizableAny)
        else { throw .parameter }
        var attributes = table.key.merging(query.attributes) { $1 }
        if query.attributes[KeychainName.attrAccessGroup] == nil {
            attributes[KeychainName.attrAccessGroup] = .text(accessGroups[0])
        }
        attributes[KeychainName.attrAccessible] =
            query.attributes[KeychainName.attrAccessible] ?? .text(table.accessibility)
        // Dates that were given are overwritten (`query_pre_add` in `SecDbQuery.c`).
        attributes[KeychainName.attrCreationDate] = .date(now)
        attributes[KeychainName.attrModificationDate] = .date(now)
        let item = KeychainItem(table, attributes, query.data)
        try checkClass(item)
        let key = item.key
        if items.contains(where: { $0.key == key }) { throw KeychainRefusal(KeychainStatus.duplicateItem) }
        items.append(item)
    }

    /// `SecServerItemCopyMatching` in `SecItemServer.c`, `s3dl_query_row` in `SecItemDb.c`.
    func copyMatching(_ query: KeychainQuery) throws(KeychainRefusal) -> [KeychainCalls.Attributes] {
        if query.data != nil { throw .parameter }  // values cannot be searched for
        if query.isIdentity { return try identities(query) }
        // There is no ORDER BY.
        var found = items.filter { $0.matches(query, groups: accessGroups) }.shuffled()
        // A locked item fails before the user could be asked for it (`ks_decrypt_data` in `SecDbKeychainItem.m`).
        if query.interaction == .skips { found.removeAll { $0.isAsked && !isLocked($0) } }
        found = Array(found.prefix(query.limit ?? 1))
        if found.isEmpty { throw KeychainRefusal(KeychainStatus.itemNotFound) }
        try checkReadable(found, query)
        return found.compactMap { $0.result(query.results) }
    }

    /// `s3dl_query_update` in `SecItemDb.c`.
    mutating func update(_ query: KeychainQuery, _ changes: KeychainCalls.Attributes, _ now: Date)
        throws(KeychainRefusal)
    {
        guard !query.hasMatch, query.results.isEmpty, query.data == nil, let table = query.table,
            query.interaction != .skips
        else { throw .parameter }
        let changes = try KeychainQuery.changes(changes, table)
        try checkGroup(changes)
        let matching = items.indices.filter { items[$0].matches(query, groups: accessGroups) }
        if matching.isEmpty { throw KeychainRefusal(KeychainStatus.itemNotFound) }
        // Items are decrypted, whatever is to change.
        try checkReadable(matching.map { items[$0] }, query)
        for index in matching {
            // The source does it, and replaces the access control by one that never asks the user.
            if items[index].isAsked, changes.attributes[KeychainName.attrAccessible] != nil,
                changes.attributes[KeychainName.attrAccessControl] == nil
            {
                throw .parameter
            }
            items[index].attributes.merge(changes.attributes) { $1 }
            items[index].attributes[KeychainName.attrModificationDate] = .date(now)
            if let data = changes.data { items[index].data = data }
            try checkClass(items[index])
            let key = items[index].key
            if items.indices.contains(where: { $0 != index && items[$0].key == key }) {
                throw KeychainRefusal(KeychainStatus.duplicateItem)
            }
        }
    }

    /// `SecServerItemDelete` in `SecItemServer.c`, `s3dl_query_delete` in `SecItemDb.c`: locked items go too, and those that
    /// need the user (`kAKSKeyOpDelete` in `SecAccessControl.m`).
    mutating func delete(_ query: KeychainQuery) throws(KeychainRefusal) {
        guard !query.hasMatch, query.data == nil, query.table != nil, query.interaction != .skips else {
            throw .parameter
        }
        let count = items.count
        items.removeAll { $0.matches(query, groups: accessGroups) }
        if items.count == count { throw KeychainRefusal(KeychainStatus.itemNotFound) }
    }

    /// An identity is a private key and a certificate with the same public key's digest (`SecDbAppendWhereClause` in
    /// `SecItemDb.c`).
    private func identities(_ query: KeychainQuery) throws(KeychainRefusal) -> [KeychainCalls.Attributes] {
        let mine = items.filter {
            $0.attributes[KeychainName.attrAccessGroup]?.text.map(accessGroups.contains) ?? false
        }
        var found: [KeychainCalls.Attributes] = []
        for key in mine.shuffled()
        where key.table.name == KeychainName.classKey && key.attributes["priv"] == .int(1) {
            for certificate in mine.shuffled() where certificate.table.name == KeychainName.classCertificate {
                guard let digest = key.attributes["klbl"], digest == certificate.attributes["pkhh"] else {
                    continue
                }
                let attributes = key.attributes.merging(certificate.attributes) { $1 }
                guard query.attributes.allSatisfy({ attributes[$0] == $1 }) else { continue }
                try checkReadable([key], query)
                found.append(attributes)
            }
        }
        if found.isEmpty { throw KeychainRefusal(KeychainStatus.itemNotFound) }
        return query.results.contains(.attributes) ? Array(found.prefix(query.limit ?? 1)) : []
    }

    private func isLocked(_ item: KeychainItem) -> Bool {
        isLocked && item.accessibility.hasPrefix("ak")
            || isBeforeFirstUnlock && item.accessibility.hasPrefix("ck")
    }

    /// A class that needs a passcode, and a locked one (`SecDbKeychainItem.m`).
    private func checkClass(_ item: KeychainItem) throws(KeychainRefusal) {
        guard KeychainSchema.accessibilities.contains(item.accessibility) else { throw .parameter }
        if item.accessibility == "akpu", !hasPasscode {
            throw KeychainRefusal(KeychainStatus.authenticationFailed)
        }
        if isLocked(item) { throw KeychainRefusal(KeychainStatus.interactionNotAllowed) }
    }

    /// One item that is locked, with its attributes (`SecDbKeychainMetadataKeyStore.m`), or that the user does not confirm
    /// makes a whole query fail, whatever it asks for (`ks_decrypt_data` in `SecDbKeychainItem.m`).
    private func checkReadable(_ items: [KeychainItem], _ query: KeychainQuery) throws(KeychainRefusal) {
        if items.contains(where: isLocked) { throw KeychainRefusal(KeychainStatus.interactionNotAllowed) }
        guard items.contains(where: \.isAsked) else { return }
        if query.interaction == .fails { throw KeychainRefusal(KeychainStatus.interactionNotAllowed) }
        promptCount.withLock { $0 += 1 }
        switch user {
        case .confirms: break
        case .cancels: throw KeychainRefusal(KeychainStatus.userCanceled)
        case .isNotRecognized: throw KeychainRefusal(KeychainStatus.authenticationFailed)
        }
    }
}
