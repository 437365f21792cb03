#if SecretService
    @_spi(Extensions) import LockboxCore
    import LockboxPlatform
    import LockboxStore

    /// The objects of the Secret Service, and the signals that they send.
    final class SecretObjects {
        static let properties = "org.freedesktop.DBus.Properties"
        private static let maximumCollections = 64

        let store: SealedBackend
        /// Both `login` and `default`.
        let login: Collection
        /// In memory only.
        let session: Collection
        /// Those that programs have created, as far as they were used.
        private var known: [String: Collection] = [:]
        private var signals: [BusSignal] = []
        private var sessions: UInt64 = 0

        init(_ store: SealedBackend) {
            self.store = store
            login = Collection("login", store, prefix: SecretPath.items, label: "Login")
            session = Collection("session", InMemoryBackend(), prefix: SecretPath.items, label: "session")
        }

        func answer(_ call: BusCall, _ connection: BusConnection) throws -> BusAnswer {
            if connection.name == nil { throw BusError.notPermitted }
            if let name = call.destination, name != BusDriver.serviceName, name != connection.serviceName {
                throw BusError.noService(name)
            }
            if call.interface == BusDriver.introspectable {
                let object = try? object(at: call.path, connection)
                return try BusDriver.introspection(call, object?.introspection ?? "")
            }
            let object = try object(at: call.path, connection)
            if call.interface == Self.properties { return try properties(of: object, call) }
            guard call.isOf(object.interface) else { throw BusError.noMethod(call) }
            switch object {
            case .service: return try serviceMethod(call, connection)
            case .collection(let collection): return try collectionMethod(call, connection, collection)
            case .item(let item): return try itemMethod(call, connection, item)
            case .session(let path): return try sessionMethod(call, connection, path)
            }
        }

        // MARK: Paths

        /// - Throws: ``BusError`` if there is no such object. Another error's name would say that there is something else.
        func object(at path: String, _ connection: BusConnection) throws -> SecretObject {
            if path == SecretPath.root { return .service }
            let parts = path.split(separator: "/", omittingEmptySubsequences: false).dropFirst(4)
            guard path.utf8.starts(with: "\(SecretPath.root)/".utf8), (2...3).contains(parts.count) else {
                throw BusError.noObject(path)
            }
            if parts.first == "session", connection.sessions[path] != nil { return .session(path) }
            guard let collection = try collection(String(parts[5]), isAlias: parts[4] == "aliases"),
                ["aliases", "collection"].contains(parts[4])
            else { throw BusError.noObject(path) }
            if parts.count == 2 { return .collection(collection) }
            guard let key = SecretPath.key(of: parts[6]),
                let item = try collection.item(for: ItemKey(prefix: collection.prefix, key: key))
            else { throw BusError.noObject(path) }
            return .item(item)
        }

        /// Returns nil if there is none of this name.
        func collection(_ name: String, isAlias: Bool) throws -> Collection? {
            switch name {
            case "login", "default": return login
            case "session": return session
            case _ where isAlias: return try collections.first { try $0.alias == name }
            default:
                let collection = known[name] ?? made(name)
                if try !SecretPath.isElement(name) || collection.attributes == nil { return nil }
                if known.count < Self.maximumCollections { known[name] = collection }
                return collection
            }
        }

        private func made(_ name: String) -> Collection {
            Collection(name, store, prefix: SecretPath.items(of: name), label: name)
        }

        var collections: [Collection] {
            get throws {
                // One that is damaged takes no others with it, and names of another kind have no path.
                var names: [String] = []
                try store.forEachItem(prefix: SecretPath.records, now: nil, unreadable: { _ in }) { key, _ in
                    if SecretPath.isElement(key.key) { names.append(key.key) }
                }
                return [login, session] + names.sorted().map { known[$0] ?? made($0) }
            }
        }

        func remove(_ collection: Collection) throws {
            try collection.remove()
            known[collection.name] = nil
        }

        func createCollection(label: String, alias: String) throws -> Collection {
            guard try collections.count < Self.maximumCollections else {
                throw BusError.tooMuch("There are too many collections.")
            }
            let collection = made(SecretPath.newElement)
            try collection.setLabel(label, alias: alias)
            return collection
        }

        func newSessionPath() -> String {
            sessions += 1
            return "\(SecretPath.root)/session/s\(sessions)"
        }

        // MARK: Signals

        /// Returns the signals since the last call.
        func takeSignals() -> [BusSignal] {
            defer { signals = [] }
            return signals
        }

        /// - Parameter subject: The path of what was created, changed or deleted.
        func signal(_ member: String, _ subject: String, from path: String, _ interface: String) {
            signals.append(
                BusSignal(path: path, interface: interface, member: member) { try $0.append(path: subject) }
            )
        }

        /// - Parameter others: Properties whose new values clients ask for.
        func signalChange(
            of properties: [String: BusProperty] = [:],
            _ path: String,
            _ interface: String,
            others: [String] = []
        ) {
            signals.append(
                BusSignal(path: path, interface: Self.properties, member: "PropertiesChanged") { message in
                    try message.append(interface)
                    try message.append(properties)
                    try message.appendArray(others, of: "s") { try message.append($0) }
                }
            )
        }

        /// - Parameter member: `ItemCreated`, `ItemChanged` or `ItemDeleted`.
        func signal(_ member: String, _ item: Item) {
            let (collection, interface) = (
                item.collection, SecretObject.collection(item.collection).interface
            )
            signal(member, item.path, from: collection.path, interface)
            if member == "ItemChanged" { return }
            signalChange(collection.path, interface, others: ["Items"])
        }
    }
#endif
