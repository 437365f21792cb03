#if Etcd
    import CCurl

    /// A user of etcd, for clusters with authentication.
    public struct EtcdUser: Sendable {
        let name: String
        let password: @Sendable () throws -> String

        /// Creates a user with a password that the program has.
        ///
        /// - Parameters:
        ///   - name: The user's name.
        ///   - password: The user's password.
        public init(name: String, password: String) {
            self.init(name: name) { password }
        }

        /// Creates a user whose password is asked for when it is needed.
        ///
        /// - Parameters:
        ///   - name: The user's name.
        ///   - password: Returns the password. Called whenever etcd wants a new token, on the thread that needs it. Errors
        ///     that it throws are rethrown.
        public init(name: String, password: @escaping @Sendable () throws -> String) {
            self.name = name
            self.password = password
        }
    }

    extension EtcdUser: CustomStringConvertible, CustomReflectable {
        /// The name, not the password.
        public var description: String { "EtcdUser(\(name))" }

        /// Keeps `dump(_:)` from showing the password.
        public var customMirror: Mirror { Mirror(self, children: ["name": name]) }
    }
#endif
