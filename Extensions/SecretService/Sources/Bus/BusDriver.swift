#if SecretService
    import CSystemd
    import LockboxPlatform

    /// The answers of the bus itself. There is no daemon: the service is alone on its bus with each client.
    struct BusDriver {
        static let name = "org.freedesktop.DBus"
        static let path = "/org/freedesktop/DBus"
        /// The service's.
        static let serviceName = "org.freedesktop.secrets"
        static let uniqueName = ":1.0"
        private static let peer = "org.freedesktop.DBus.Peer"
        static let introspectable = "org.freedesktop.DBus.Introspectable"

        let identifier: String
        private static let maximumNames = 64
        private var connections: UInt64 = 0
        /// The clients that have taken names, by these.
        private var owners: [String: String] = [:]

        init(identifier: String) { self.identifier = identifier }

        /// Whether a call is for the bus. Anything else is for the service.
        static func isFor(_ call: BusCall) -> Bool {
            call.destination == name || call.interface == peer
                || call.destination == nil && call.interface == name
        }

        mutating func answer(_ call: BusCall, _ connection: BusConnection) throws -> BusAnswer {
            if call.interface == Self.introspectable { return try Self.introspection(call, "") }
            if call.interface == Self.peer { return try Self.peer(call, identifier) }
            guard call.isOf(Self.name) else { throw BusError.noMethod(call) }
            if call.member == "Hello" { return try hello(call, connection) }
            guard let name = connection.name else { throw BusError.notPermitted }
            switch call.member {
            case "AddMatch":
                _ = try call.arguments("s")
                try connection.addMatch()
                return { _ in }
            case "RemoveMatch":
                _ = try call.arguments("s")
                connection.removeMatch()
                return { _ in }
            case "RequestName":
                let result = try take(call.arguments("su").text(), name)
                return { try $0.append(UInt32(result)) }
            case "ReleaseName":
                let taken = try call.arguments("s").text()
                let owner = owners[taken]
                if owner == name { owners[taken] = nil }
                return { try $0.append(UInt32(owner == nil ? 2 : owner == name ? 1 : 3)) }
            default:
                return try names(
                    call,
                    known: [Self.name, Self.serviceName, Self.uniqueName, name] + owners.keys
                )
            }
        }

        /// Returns 1 if the client has it now, 4 if it had it before, and 3 if another has it. No client waits for one.
        private mutating func take(_ name: String, _ client: String) throws -> Int {
            if let owner = owners[name] { return owner == client ? 4 : 3 }
            if name == Self.serviceName || name == Self.name || name.hasPrefix(":") { return 3 }
            guard owners.values.count(where: { $0 == client }) < Self.maximumNames else {
                throw BusError.tooMuch("The client has too many names.")
            }
            owners[name] = client
            return 1
        }

        /// Frees the names of a client that has gone.
        mutating func forget(_ client: String) {
            if !owners.isEmpty { owners = owners.filter { $0.value != client } }
        }

        private mutating func hello(_ call: BusCall, _ connection: BusConnection) throws -> BusAnswer {
            _ = try call.arguments("")
            if connection.name != nil { throw BusError.failed("Hello was called before.") }
            connections += 1
            let name = ":1.\(connections)"
            connection.hello(as: name)
            return { try $0.append(name) }
        }

        /// Questions of clients about names.
        private func names(_ call: BusCall, known: [String]) throws -> BusAnswer {
            switch call.member {
            case "ListNames", "ListActivatableNames":
                _ = try call.arguments("")
                return { answer in try answer.appendArray(known, of: "s") { try answer.append($0) } }
            case "GetNameOwner":
                let owner = try owner(of: call.arguments("s").text(), known)
                return { try $0.append(owner) }
            case "NameHasOwner":
                let isKnown = try known.contains(call.arguments("s").text())
                return { try $0.append(isKnown) }
            case "StartServiceByName":
                let name = try call.arguments("su").text()
                guard known.contains(name) else { throw BusError.noService(name) }
                return { try $0.append(UInt32(2)) }  // it runs already
            case "GetConnectionUnixUser", "GetConnectionUnixProcessID":
                _ = try owner(of: call.arguments("s").text(), known)
                let isUser = call.member == "GetConnectionUnixUser"
                return { try $0.append(isUser ? UInt32(geteuid()) : UInt32(getpid())) }
            case "GetId":
                let identifier = identifier
                return { try $0.append(identifier) }
            default: throw BusError.noMethod(call)
            }
        }

        private func owner(of name: String, _ known: [String]) throws -> String {
            guard known.contains(name) else { throw BusError.noName(name) }
            return name == Self.serviceName ? Self.uniqueName : owners[name] ?? name
        }

        static func peer(_ call: BusCall, _ identifier: String) throws -> BusAnswer {
            switch call.member {
            case "Ping": return { _ in }
            case "GetMachineId": return { try $0.append(identifier) }
            default: throw BusError.noMethod(call)
            }
        }

        /// - Parameter interfaces: Their descriptions. Clients know the bus's own without one.
        static func introspection(_ call: BusCall, _ interfaces: String) throws -> BusAnswer {
            guard call.member == "Introspect" else { throw BusError.noMethod(call) }
            return { try $0.append("<node>\(interfaces)</node>") }
        }
    }
#endif
