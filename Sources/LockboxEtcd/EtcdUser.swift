#if Etcd
    import CCurl
    import LockboxCore
    import LockboxSealed
    import LockboxSodium

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

        /// Creates a user whose password is in a file, which is read whenever etcd wants a new token.
        ///
        /// - Parameters:
        ///   - name: The user's name.
        ///   - passwordFile: The file. One newline at its end is not part of the password. If others can read or change it, the
        ///     call that needs the password throws ``LockboxError/unsafePermissions(path:reason:)``, as with
        ///     ``PasscodeSource/file(_:)``.
        public init(name: String, passwordFile: String) {
            self.init(name: name) {
                var bytes = try SecretReader.file(passwordFile, maximum: PasscodeSource.maximumLength)
                defer { Sodium.wipe(&bytes) }
                let end = bytes.last == UInt8(ascii: "\n") ? bytes.count - 1 : bytes.count
                if let password = String(validating: bytes[..<end], as: UTF8.self) { return password }
                throw LockboxError.invalidPasscode(reason: "\(passwordFile) is not UTF-8")
            }
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
