#if SecretService
    @_spi(Extensions) import LockboxCore
    import LockboxPlatform
    import LockboxStore

    /// What clients call.
    ///
    /// No call needs a prompt, so none ever waits for one: the path of each is `/`. Where a locked store would need it, the answer
    /// is that nothing was unlocked.
    extension SecretObjects {
        private static let noPrompt = "/"
        /// Bytes of all secrets of one answer.
        private static let maximumAnswer = 32 << 20

        // MARK: The service

        func serviceMethod(_ call: BusCall, _ connection: BusConnection) throws -> BusAnswer {
            switch call.member {
            case "OpenSession": return try openSession(call.arguments("sv"), connection)
            case "CreateCollection": return try createCollection(call.arguments("a{sv}s"))
            case "SearchItems": return try searchItems(call.arguments("a{ss}"))
            case "Unlock":
                let paths = try call.arguments("ao").paths().filter { try !isLocked($0, connection) }
                return { message in
                    try message.append(paths: paths)
                    try message.append(path: Self.noPrompt)
                }
            case "Lock": return try lock(call.arguments("ao").paths(), connection)
            case "GetSecrets": return try getSecrets(call.arguments("aoo"), connection)
            case "ReadAlias":
                let collection = try collection(call.arguments("s").text(), isAlias: true)
                return { try $0.append(path: collection?.path ?? Self.noPrompt) }
            case "SetAlias": return try setAlias(call.arguments("so"), connection)
            default: throw BusError.noMethod(call)
            }
        }

        private func openSession(_ arguments: BusMessage, _ connection: BusConnection) throws -> BusAnswer {
            let algorithm = try arguments.text()
            guard connection.sessions.count < BusConnection.Limit.sessions else {
                throw BusError.tooMuch("The connection has too many sessions.")
            }
            let cipher: SessionCipher?
            switch algorithm {
            case "plain": cipher = nil
            case SessionCipher.name:
                cipher = try SessionCipher(peer: arguments.variant(of: "ay") { try arguments.bytes() })
            default: throw BusError.notSupported("There is no algorithm \(algorithm).")
            }
            let session = Session(path: newSessionPath(), cipher: cipher)
            connection.sessions[session.path] = session
            return { message in
                try message.append(cipher.map { .bytes($0.publicKey) } ?? BusProperty.text(""))
                try message.append(path: session.path)
            }
        }

        /// The default collection is always there. Clients that find no collection of their own create one.
        private func createCollection(_ arguments: BusMessage) throws -> BusAnswer {
            var label = ""
            try arguments.properties { name in
                // Some libraries send the other name.
                guard
                    ["org.freedesktop.Secret.Collection.Label", "org.freedesktop.Secret.Item.Label"].contains(
                        name
                    )
                else { return false }
                label = try arguments.variant(of: "s") { try arguments.text() }
                return true
            }
            let alias = try arguments.text()
            var created = try collection(alias, isAlias: true)
            if created == nil {
                let new = try createCollection(label: label, alias: alias)
                signal("CollectionCreated", new.path, from: SecretPath.root, SecretObject.service.interface)
                try signalCollections()
                created = new
            }
            let path = created?.path ?? Self.noPrompt
            return { message in
                try message.append(path: path)
                try message.append(path: Self.noPrompt)
            }
        }

        private func signalCollections() throws {
            let paths = BusProperty.paths(try collections.map(\.path))
            signalChange(of: ["Collections": paths], SecretPath.root, SecretObject.service.interface)
        }

        private func searchItems(_ arguments: BusMessage) throws -> BusAnswer {
            let attributes = try arguments.texts()
            var (unlocked, locked): ([Item], [Item]) = ([], [])
            for collection in try collections {
                let items = try collection.items(with: attributes)
                if try collection.isLocked { locked += items } else { unlocked += items }
            }
            return { [unlocked, locked] message in
                try message.append(paths: unlocked.sorted().map(\.path))
                try message.append(paths: locked.sorted().map(\.path))
            }
        }

        /// Whether an object is there and locked. One that is not there counts as locked: nothing can unlock it.
        private func isLocked(_ path: String, _ connection: BusConnection) throws -> Bool {
            try ofOne { try collection(at: path, connection)?.isLocked } ?? true
        }

        private func collection(at path: String, _ connection: BusConnection) throws -> Collection? {
            switch try object(at: path, connection) {
            case .collection(let collection): collection
            case .item(let item): item.collection
            default: nil
            }
        }

        /// Locks the store for every program of the user, as a desktop's keyring does. A store without a passcode cannot be locked.
        private func lock(_ paths: [String], _ connection: BusConnection) throws -> BusAnswer {
            let stored = paths.filter { path in
                guard let found = try? collection(at: path, connection) else { return false }
                return found.name != session.name
            }
            if !stored.isEmpty, try store.lockState == .unlocked {
                try store.lock()
                for collection in try collections where collection.name != session.name {
                    signalChange(
                        of: ["Locked": .flag(true)],
                        collection.path,
                        SecretObject.collection(collection).interface
                    )
                }
            }
            let locked = try stored.filter { try isLocked($0, connection) }
            return { message in
                try message.append(paths: locked)
                try message.append(path: Self.noPrompt)
            }
        }

        /// Leaves out what is not there or locked.
        private func getSecrets(_ arguments: BusMessage, _ connection: BusConnection) throws -> BusAnswer {
            let paths = Set(try arguments.paths())
            let session = try connection.session(at: arguments.path())
            var (secrets, size): ([String: Secret], Int) = ([:], 0)
            for path in paths {
                guard let secret = try secret(at: path, connection) else { continue }
                size += secret.value.count
                if size > Self.maximumAnswer {
                    throw BusError.tooMuch("The secrets are too long for one answer.")
                }
                secrets[path] = secret
            }
            return { [secrets] message in
                try message.appendArray(secrets, of: "{o(\(Secret.type))}") { path, secret in
                    try message.appendInside("e", "o(\(Secret.type))") {
                        try message.append(path: path)
                        try session.append(secret, to: message)
                    }
                }
            }
        }

        private func secret(at path: String, _ connection: BusConnection) throws -> Secret? {
            try ofOne {
                guard case .item(let item) = try object(at: path, connection) else { return nil }
                return try item.secret()
            }
        }

        /// Returns nil for what is not there, locked or damaged: it takes no others with it.
        private func ofOne<Value>(_ body: () throws -> Value?) throws -> Value? {
            let codes: [LockboxError.Code] = [
                .interactionNotAllowed, .corrupt, .authenticationFailed, .unsupportedVersion, .unreadable,
                .unsafePermissions,
            ]
            do { return try body() } catch is BusError { return nil } catch let error as LockboxError
                where codes.contains(error.code)
            { return nil }
        }

        private func setAlias(_ arguments: BusMessage, _ connection: BusConnection) throws -> BusAnswer {
            let (alias, path) = (try arguments.text(), try arguments.path())
            guard try collection(alias, isAlias: true)?.path == collection(at: path, connection)?.path else {
                throw BusError.notSupported("A collection keeps the alias that it was created with.")
            }
            return { _ in }
        }

        // MARK: Collections, items and sessions

        func collectionMethod(_ call: BusCall, _ connection: BusConnection, _ collection: Collection) throws
            -> BusAnswer
        {
            switch call.member {
            case "CreateItem":
                return try createItem(call.arguments("a{sv}(\(Secret.type))b"), connection, collection)
            case "SearchItems":
                let paths = try collection.items(with: call.arguments("a{ss}").texts()).map(\.path)
                return { try $0.append(paths: paths) }
            case "Delete":
                _ = try call.arguments("")
                if [login.name, session.name].contains(collection.name) {
                    throw BusError.notSupported("This collection is always there. Delete its items.")
                }
                try remove(collection)
                signal(
                    "CollectionDeleted",
                    collection.path,
                    from: SecretPath.root,
                    SecretObject.service.interface
                )
                try signalCollections()
                return { try $0.append(path: Self.noPrompt) }
            default: throw BusError.noMethod(call)
            }
        }

        private func createItem(
            _ arguments: BusMessage,
            _ connection: BusConnection,
            _ collection: Collection
        ) throws
            -> BusAnswer
        {
            var (label, attributes): (String?, [String: String]) = (nil, [:])
            try arguments.properties { name in
                switch name {
                case "org.freedesktop.Secret.Item.Label":
                    label = try arguments.variant(of: "s") { try arguments.text() }
                case "org.freedesktop.Secret.Item.Attributes":
                    attributes = try arguments.variant(of: "a{ss}") { try arguments.texts() }
                default: return false
                }
                return true
            }
            let secret = try Session.secret(from: arguments, of: connection)
            let (item, isNew) = try collection.store(
                secret,
                label: label,
                attributes: attributes,
                replacing: arguments.flag()
            )
            signal(isNew ? "ItemCreated" : "ItemChanged", item)
            return { message in
                try message.append(path: item.path)
                try message.append(path: Self.noPrompt)
            }
        }

        func itemMethod(_ call: BusCall, _ connection: BusConnection, _ item: Item) throws -> BusAnswer {
            switch call.member {
            case "GetSecret":
                let session = try connection.session(at: call.arguments("o").path())
                let secret = try item.secret()
                return { try session.append(secret, to: $0) }
            case "SetSecret":
                try item.setSecret(Session.secret(from: call.arguments("(\(Secret.type))"), of: connection))
                signal("ItemChanged", item)
                return { _ in }
            case "Delete":
                _ = try call.arguments("")
                try item.collection.remove(item)
                signal("ItemDeleted", item)
                return { try $0.append(path: Self.noPrompt) }
            default: throw BusError.noMethod(call)
            }
        }

        func sessionMethod(_ call: BusCall, _ connection: BusConnection, _ path: String) throws -> BusAnswer {
            guard call.member == "Close" else { throw BusError.noMethod(call) }
            _ = try call.arguments("")
            connection.sessions[path] = nil
            return { _ in }
        }
    }
#endif
