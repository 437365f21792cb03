#if SecretService
    @_spi(Extensions) import LockboxCore
    import LockboxPlatform

    /// How a keyring is reached.
    struct KeyringAccess: Sendable {
        /// How long the user may take to answer a prompt. Nil: none is shown.
        var promptLimit: Duration?
        /// The bus, if it is another than the environment names.
        var address: String?
        /// Which keyring it must be, if that matters.
        var identity: KeyringIdentity?
        /// How long an answer may take, and how long another program of Lockbox's may keep a lock.
        var limit = Duration.seconds(10)
    }

    /// Tells one keyring from another: an item that has been added to it.
    struct KeyringIdentity: Codable, Sendable {
        static let schema = ["xdg:schema": "lockbox.keyring"]

        let id: String
        /// The name of the keyring's process, for people.
        let program: String

        fileprivate var attributes: [String: String] { Self.schema.merging(["id": id]) { $1 } }
    }

    /// The user's keyring, as a client sees it: one connection, whose default collection is unlocked.
    final class Keyring {
        /// How often a call starts again because another writer was faster.
        static let maximumRounds = 64
        private static let service = SecretObject.service.interface
        private static let item = "org.freedesktop.Secret.Item"
        private static let prompt = "org.freedesktop.Secret.Prompt"
        private static let noPrompt = "/"

        private let bus: UserBus
        private let session: String
        private let collection: String
        private let promptLimit: Duration?
        /// Whether a change has been asked for.
        private var isChanging = false

        /// Calls the keyring.
        ///
        /// - Throws: ``LockboxError``; the errors of `body`.
        static func with<Result>(_ access: KeyringAccess, _ body: (Keyring) throws -> Result) throws -> Result
        {
            var keyring: Keyring?
            do {
                let new = try Keyring(access)
                keyring = new
                return try body(new)
            } catch let error as BusError {
                throw LockboxError(keyring: error, isChanging: keyring?.isChanging ?? false)
            }
        }

        /// Whether there is a keyring, perhaps a locked one. Asks the user nothing.
        ///
        /// - Throws: ``LockboxError`` if that is not known, since the bus or the keyring does not answer.
        static func isThere(_ access: KeyringAccess) throws -> Bool {
            do {
                _ = try defaultCollection(UserBus(limit: access.limit, address: access.address))
                return true
            } catch let error as BusError {
                if error.meansNone { return false }
                throw LockboxError(keyring: error, isChanging: false)
            }
        }

        private static func defaultCollection(_ bus: UserBus) throws -> String {
            let path = try bus.call(SecretPath.root, service, "ReadAlias") { try $0.append("default") }.path()
            if path == noPrompt { throw BusError.noKeyring("it has no default collection") }
            return path
        }

        /// - Throws: ``BusError``; ``LockboxError/interactionNotAllowed(_:)`` if the keyring is locked;
        ///   ``LockboxError/notReachable(endpoint:reason:)`` if it is another than it must be.
        private init(_ access: KeyringAccess) throws {
            promptLimit = access.promptLimit
            bus = try UserBus(limit: access.limit, address: access.address)
            let answer = try bus.call(SecretPath.root, Self.service, "OpenSession") {
                try $0.append("plain")
                try $0.append(BusProperty.text(""))
            }
            _ = try answer.variant(of: "s") { try answer.text() }
            session = try answer.path()
            collection = try Self.defaultCollection(bus)
            if try isLocked(collection, "org.freedesktop.Secret.Collection") { try unlock([collection]) }
            if let identity = access.identity, try paths(with: identity.attributes).isEmpty {
                throw LockboxError.notReachable(
                    endpoint: "the keyring",
                    reason:
                        "this is another keyring than that of \(ShownText.line(identity.program)), which has the items; start that one"
                )
            }
        }

        /// Returns what tells this keyring from others. Adds it, if it is not there yet.
        func identity() throws -> KeyringIdentity {
            let known = try items(with: KeyringIdentity.schema).compactMap { $0.attributes["id"] }.min()
            let identity = KeyringIdentity(
                id: known ?? SessionCipher.random(16).hexadecimal,
                program: UserKeyring.program(bus)
            )
            if known == nil {
                try create(
                    Secret(value: Data(identity.id.utf8), contentType: AttributeNames.defaultContentType),
                    label: "Lockbox's name for this keyring",
                    attributes: identity.attributes
                )
            }
            return identity
        }

        private func isLocked(_ path: String, _ interface: String) throws -> Bool {
            let answer = try bus.call(path, SecretObjects.properties, "Get") {
                try $0.append(interface)
                try $0.append("Locked")
            }
            return try answer.variant(of: "b") { try answer.flag() }
        }

        // MARK: Prompts

        /// - Throws: ``LockboxError/interactionNotAllowed(_:)`` if that needs a prompt, and none may be shown, or it is not answered;
        ///   ``LockboxError/userCanceled``.
        private func unlock(_ paths: [String]) throws {
            guard promptLimit != nil else { throw LockboxError.interactionNotAllowed(.whenUnlocked) }
            let answer = try bus.call(SecretPath.root, Self.service, "Unlock") { try $0.append(paths: paths) }
            let unlocked = try answer.paths()
            let prompt = try answer.path()
            try complete(prompt)
            if prompt == Self.noPrompt, Set(unlocked) != Set(paths) {
                throw LockboxError.interactionNotAllowed(.whenUnlocked)
            }
        }

        private func complete(_ prompt: String) throws {
            if prompt == Self.noPrompt { return }
            guard let promptLimit else { throw LockboxError.interactionNotAllowed(.whenUnlocked) }
            try bus.callBus("AddMatch") {
                try $0.append("type='signal',interface='\(Self.prompt)',path='\(prompt)'")
            }
            try bus.call(prompt, Self.prompt, "Prompt") { try $0.append("") }
            guard let signal = try bus.signal("Completed", from: prompt, within: promptLimit) else {
                // The end of this connection withdraws the prompt. gnome-keyring 42.1 crashes when it is asked to dismiss one.
                throw LockboxError.interactionNotAllowed(.whenUnlocked)
            }
            if try signal.flag() { throw LockboxError.userCanceled }
        }

        // MARK: Items

        /// Returns the items that have all of these attributes.
        func items(with attributes: [String: String]) throws -> [KeyringItem] {
            var known: [String: KeyringItem] = [:]
            for _ in 0..<Self.maximumRounds {
                let paths = try paths(with: attributes)
                for path in paths where known[path] == nil { known[path] = try item(at: path) }
                let found = paths.compactMap { known[$0] }
                // What is gone may have been replaced, and then it is elsewhere.
                if found.count == paths.count { return found }
            }
            throw LockboxError.conflict(record: "the keyring")
        }

        /// Those of the collection `session` do not last, and are left out.
        private func paths(with attributes: [String: String]) throws -> [String] {
            let answer = try bus.call(SecretPath.root, Self.service, "SearchItems") {
                try $0.append(texts: attributes)
            }
            func paths() throws -> [String] {
                try answer.array(of: "o") { try answer.path() }.filter {
                    !$0.hasPrefix("\(SecretPath.root)/collection/session/")
                }
            }
            let (unlocked, locked) = (try paths(), try paths())
            if !locked.isEmpty { try unlock(locked) }
            return unlocked + locked
        }

        /// Returns nil if it is gone.
        func item(at path: String) throws -> KeyringItem? {
            try ifThere {
                let answer = try bus.call(path, SecretObjects.properties, "GetAll") {
                    try $0.append(Self.item)
                }
                return try KeyringItem(path: path, properties: answer)
            }
        }

        /// Returns nil if the item is gone.
        func secret(of item: KeyringItem) throws -> Secret? {
            try ifThere {
                let answer = try bus.call(item.path, Self.item, "GetSecret") { try $0.append(path: session) }
                return try answer.inside("r", Secret.type) {
                    _ = (try answer.path(), try answer.bytes())
                    return Secret(value: Data(try answer.bytes()), contentType: try answer.text())
                }
            }
        }

        /// Adds an item, whatever others there are.
        func create(_ secret: Secret, label: String, attributes: [String: String]) throws {
            isChanging = true
            let answer = try bus.call(collection, "org.freedesktop.Secret.Collection", "CreateItem") { call in
                try call.append([
                    "\(Self.item).Label": .text(label), "\(Self.item).Attributes": .texts(attributes),
                ])
                try Session(path: session, cipher: nil).append(secret, to: call)
                try call.append(false)
            }
            _ = try answer.path()
            try complete(answer.path())
        }

        func delete(_ item: KeyringItem) throws {
            isChanging = true
            let prompt = try ifThere { try bus.call(item.path, Self.item, "Delete").path() }
            if let prompt { try complete(prompt) }
        }

        private func ifThere<Value>(_ body: () throws -> Value) throws -> Value? {
            do { return try body() } catch let error as BusError where error.isAboutAbsence { return nil }
        }

        /// Keeps other programs of Lockbox's from changing the same items, until this connection ends.
        func lock(_ name: String) throws {
            let end = ContinuousClock.now + bus.limit
            while try !bus.take(name) {
                if end < .now {
                    throw LockboxError.lockTimeout(location: "the name \(name) on the user's D-Bus")
                }
                usleep(.random(in: 500..<4000))
            }
        }
    }

    /// An item of the keyring, without its secret.
    struct KeyringItem: Equatable {
        private(set) var path: String
        var attributes: [String: String] = [:]
        var label = ""
        /// In seconds since 1970.
        var created: UInt64 = 0
        var modified: UInt64 = 0

        fileprivate init(path: String, properties: BusMessage) throws {
            self.path = path
            var item = self
            try properties.properties { name in
                switch name {
                case "Attributes":
                    item.attributes = try properties.variant(of: "a{ss}") { try properties.texts() }
                case "Label": item.label = try properties.variant(of: "s") { try properties.text() }
                case "Created": item.created = try properties.variant(of: "t") { try properties.number() }
                case "Modified": item.modified = try properties.variant(of: "t") { try properties.number() }
                default: return false
                }
                return true
            }
            self = item
            // A keyring that has not been unlocked since it was started shows these.
            if attributes.keys.contains(where: { $0.hasPrefix("gkr:compat:hashed:") }) {
                throw LockboxError.interactionNotAllowed(.whenUnlocked)
            }
        }
    }

    extension BusError {
        private static let absences = [
            "org.freedesktop.Secret.Error.NoSuchObject", "org.freedesktop.DBus.Error.UnknownObject",
            "org.freedesktop.DBus.Error.UnknownMethod",
        ]

        fileprivate var isAboutAbsence: Bool { Self.absences.contains(name) }

        /// Whether there certainly is no keyring, nor one that could be started.
        fileprivate var meansNone: Bool {
            // Also one that does not start, as a desktop's on a server.
            [Self.noKeyring(""), Self.noService(""), Self.noName("")].map(\.name).contains(name)
                || name.hasPrefix("org.freedesktop.DBus.Error.Spawn.")
        }
    }

    extension LockboxError {
        private static let advice =
            "start the desktop's keyring, or start the program with lockbox secret-service --"

        /// - Parameters:
        ///   - error: What a client was answered.
        ///   - isChanging: Whether a change may have been made.
        fileprivate init(keyring error: BusError, isChanging: Bool) {
            let name = error.name.split(separator: ".").last.map(String.init) ?? ""
            let isLost = ["NoReply", "Timeout", "TimedOut", "Disconnected", "NoServer"].contains(name)
            switch name {
            case "IsLocked": self = .interactionNotAllowed(.whenUnlocked)
            case "AccessDenied":
                self = .accessDenied(endpoint: "the keyring", reason: ShownText.line(error.message))
            case _ where isLost && isChanging:
                self = .outcomeUnknown(record: "the keyring", reason: ShownText.line(error.message))
            case _ where isLost || error.meansNone:
                self = .notReachable(
                    endpoint: "the keyring",
                    reason: "\(ShownText.line(error.message)); \(Self.advice)"
                )
            default:
                self = .storageFailure(
                    operation: "a call of D-Bus",
                    path: "the keyring",
                    errno: EIO,
                    explanation: "The keyring refused: \(ShownText.line(error.message))."
                )
            }
        }
    }
#endif
