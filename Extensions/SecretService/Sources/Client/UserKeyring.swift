#if SecretService
    import CSystemd
    import LockboxPlatform

    /// The keyring that programs find on the user's D-Bus.
    public enum UserKeyring: Sendable, Hashable, CustomStringConvertible {
        /// There is no bus, or it does not answer.
        case noBus
        /// The bus has none, or one that has not been set up.
        case none
        /// There is one. `program` is the name of its process.
        case running(program: String, isLocked: Bool)

        /// Whether it is one that this package provides.
        public var isLockbox: Bool {
            if case .running(let program, _) = self { program.hasPrefix("lockbox") } else { false }
        }

        /// What is there, in a few words.
        public var description: String {
            switch self {
            case .noBus: "there is no D-Bus"
            case .none: "there is no keyring"
            case .running(let program, let isLocked): "\(program) is the \(isLocked ? "locked " : "")keyring"
            }
        }

        /// Looks for it. Starts none, and takes at most some seconds.
        public static func look() -> UserKeyring { look(nil) }

        static func look(_ address: String?) -> UserKeyring {
            guard let bus = try? UserBus(limit: .seconds(2), address: address) else { return .noBus }
            return (try? look(bus)) ?? .none
        }

        private static func look(_ bus: UserBus) throws -> UserKeyring {
            guard try bus.callBus("NameHasOwner", { try $0.append(BusDriver.serviceName) }).flag() else {
                return .none
            }
            let collection = try bus.call(SecretPath.root, SecretObject.service.interface, "ReadAlias") {
                try $0.append("default")
            }.path()
            guard collection != "/" else { return .none }
            let answer = try bus.call(collection, SecretObjects.properties, "Get") {
                try $0.append("org.freedesktop.Secret.Collection")
                try $0.append("Locked")
            }
            return .running(
                program: program(bus),
                isLocked: try answer.variant(of: "b") { try answer.flag() }
            )
        }

        /// Returns the name of the process that is the keyring.
        static func program(_ bus: UserBus) -> String {
            var name = [CChar](repeating: 0, count: 32)
            let process = try? bus.callBus("GetConnectionUnixProcessID") {
                try $0.append(BusDriver.serviceName)
            }
            .count()
            if let process { program_name(process, &name) }
            let program = name.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
            // Its second executable has a longer name, of which the kernel keeps 15 bytes.
            if program.hasPrefix("lockbox") { return "lockbox" }
            return program.isEmpty ? "another program" : program
        }
    }
#endif
