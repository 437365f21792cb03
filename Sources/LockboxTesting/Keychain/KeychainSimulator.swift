import LockboxCore
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
/// Of macOS's file keychain, only passwords are simulated, without locks, access lists and prompts.
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
        /// Of macOS's file keychain.
        var fileItems: [KeychainItem] = []
        var isLocked = false
        var isBeforeFirstUnlock = false
        var hasPasscode = true
        var user = User.cancels
        /// Also of calls that are refused.
        let promptCount = Protected(0)
        var accessGroups: [String]
    }

    let platform: Platform
    let now: @Sendable () -> Date
    private let state: Protected<State>

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
        state = Protected(State(accessGroups: accessGroups))
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

    /// Which keychains a call is about. Only macOS has two.
    private func targets(_ query: Attributes) -> State.Targets {
        platform == .macOS ? State.targets(query) : State.Targets(dataProtection: true, file: false)
    }

    /// What two keychains answer (`SecItemMergeResults` in `SecItem.cpp`): the file's error counts, if there are two.
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

    /// What macOS takes out of a query before it looks at it (`SecItemCopyTranslatedAttributes` in `SecItem.cpp`): the
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
