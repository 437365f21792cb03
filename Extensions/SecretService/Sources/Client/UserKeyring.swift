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
            func service(_ answer: BusMessage) throws { try answer.append(BusDriver.serviceName) }
            guard try bus.callBus("NameHasOwner", service).flag() else { return .none }
            var name = [CChar](repeating: 0, count: 32)
            if let process = try? bus.callBus("GetConnectionUnixProcessID", service).count() {
                program_name(process, &name)
            }
            let collection = try bus.call(SecretPath.root, SecretObject.service.interface, "ReadAlias") {
                try $0.append("default")
            }.path()
            guard collection != "/" else { return .none }
            let answer = try bus.call(collection, SecretObjects.properties, "Get") {
                try $0.append("org.freedesktop.Secret.Collection")
                try $0.append("Locked")
            }
            var program = name.withUnsafeBufferPointer { String(cString: $0.baseAddress!) }
            // Its second executable has a longer name, of which the kernel keeps 15 bytes.
            if program.hasPrefix("lockbox") { program = "lockbox" }
            return .running(
                program: program.isEmpty ? "another program" : program,
                isLocked: try answer.variant(of: "b") { try answer.flag() }
            )
        }
    }
#endif
