#if Etcd
    import CCurl
    public import LockboxCore
    import LockboxPlatform
    @_spi(Extensions) import LockboxStore

    /// The status of a member of the cluster.
    public struct EtcdMember: Sendable, Hashable {
        /// The member's endpoint, as passed to the storage.
        public let endpoint: String

        /// The version of etcd, such as `3.4.23`.
        public let version: String

        /// Whether the member is the leader.
        public let isLeader: Bool

        /// The size of the member's database file in bytes, including free pages that a defragmentation would release.
        public let databaseSize: UInt64

        /// The round-trip time of a status request on an open connection.
        public let latency: Duration
    }

    extension EtcdStorage {
        /// Asks every endpoint for its status, one after the other.
        ///
        /// - Parameter timeLimit: How long one endpoint may take.
        /// - Returns: The answers, in the order of the endpoints; ``LockboxError/notReachable(endpoint:reason:)`` or
        ///   ``LockboxError/accessDenied(endpoint:reason:)`` for those that give none, also if the source of the user's
        ///   password fails.
        @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { _ in }.")
        public func members(timeLimit: Duration = .seconds(1)) -> [Result<EtcdMember, LockboxError>] {
            gateway.endpoints.map { endpoint in
                // A gateway of its own, as a member that lags must not count as an old state of the cluster.
                let gateway = Gateway(
                    endpoints: [endpoint],
                    security: gateway.security,
                    user: gateway.user,
                    timeLimit: timeLimit
                )
                do { return .success(try gateway.member(endpoint)) } catch let failure as GatewayError {
                    return .failure(failure.error)
                } catch {
                    // The source of the password failed. Its error may quote the password, so only the error's type is shown.
                    let reason = "the source of the password failed with \(type(of: error))"
                    return .failure(.notReachable(endpoint: .endpoint(endpoint), reason: reason))
                }
            }
        }
    }

    extension Gateway {
        fileprivate func member(_ endpoint: String) throws -> EtcdMember {
            let path = "/v3/maintenance/status"
            let deadline = deadline  // one for both calls
            // The first answer takes the time of the connection as well.
            let _: Reply<StatusAnswer> = try call(path, StatusRequest(), until: deadline)
            var status: StatusAnswer?
            let latency = try ContinuousClock().measure {
                let result: Reply<StatusAnswer> = try call(path, StatusRequest(), until: deadline)
                status = result.answer
            }
            guard let status else {
                throw GatewayError.notReachable(endpoint, "its answer has no status", isInDoubt: false)
            }
            return EtcdMember(
                endpoint: endpoint,
                version: ErrorAnswer.short(status.version),
                isLeader: status.isLeader,
                databaseSize: status.size,
                latency: latency
            )
        }
    }

    /// How a connection to etcd is protected.
    ///
    /// Items are sealed before they leave the process, whatever is chosen here. TLS also hides the passwords and tokens of
    /// etcd's users, the operations and the names of the records, and verifies the server.
    public struct EtcdSecurity: Sendable {
        private let isEncrypted: Bool
        private let verifiesServer: Bool
        private let caFile: String?
        private let certificateFile: String?
        private let keyFile: String?

        /// TLS 1.2 or newer. The server's certificate must be valid for the host's name or address.
        ///
        /// - Parameters:
        ///   - caFile: The path of a PEM file with the certificates of the authorities to trust, or `nil` for the
        ///     system's.
        ///   - certificateFile: The path of a PEM file with a client certificate. If etcd also has users, the common name of
        ///     this certificate must be empty: the gateway refuses any other.
        ///   - keyFile: The path of a PEM file with the private key of the client certificate.
        public static func tls(
            caFile: String? = nil,
            certificateFile: String? = nil,
            keyFile: String? = nil
        ) -> EtcdSecurity {
            EtcdSecurity(true, true, caFile, certificateFile, keyFile)
        }

        /// TLS without verification of the server's certificate. Anyone between this program and etcd can read passwords and
        /// tokens, and hide or replay records. For tests.
        ///
        /// - Parameters:
        ///   - certificateFile: The path of a PEM file with a client certificate.
        ///   - keyFile: The path of a PEM file with its private key.
        public static func insecureTLSWithoutServerVerification(
            certificateFile: String? = nil,
            keyFile: String? = nil
        ) -> EtcdSecurity {
            EtcdSecurity(true, false, nil, certificateFile, keyFile)
        }

        /// No encryption: for an etcd on the same machine, and for tests.
        public static let insecurePlaintext = EtcdSecurity(false, false, nil, nil, nil)

        private init(
            _ isEncrypted: Bool,
            _ verifiesServer: Bool,
            _ caFile: String?,
            _ certificateFile: String?,
            _ keyFile: String?
        ) {
            self.isEncrypted = isEncrypted
            self.verifiesServer = verifiesServer
            self.caFile = caFile
            self.certificateFile = certificateFile
            self.keyFile = keyFile
        }

        var scheme: String { isEncrypted ? "https://" : "http://" }

        func apply(to handle: UnsafeMutableRawPointer) {
            curl_set_text(handle, CURLOPT_PROTOCOLS_STR, isEncrypted ? "https" : "http")
            // The constant's type differs between versions of libcurl.
            curl_set_number(handle, CURLOPT_SSLVERSION, Int(CURL_SSLVERSION_TLSv1_2))
            // In every case: an option that libcurl does not know must not turn verification off.
            curl_set_number(handle, CURLOPT_SSL_VERIFYPEER, isEncrypted && !verifiesServer ? 0 : 1)
            curl_set_number(handle, CURLOPT_SSL_VERIFYHOST, isEncrypted && !verifiesServer ? 0 : 2)
            if let caFile {
                curl_set_text(handle, CURLOPT_CAINFO, caFile)
                // Only these, not the system's as well.
                curl_set_pointer(handle, CURLOPT_CAPATH, nil)
            }
            if let certificateFile { curl_set_text(handle, CURLOPT_SSLCERT, certificateFile) }
            if let keyFile { curl_set_text(handle, CURLOPT_SSLKEY, keyFile) }
        }
    }

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

        /// Keeps `dump(_:)` from showing the contents.
        public var customMirror: Mirror { Mirror(self, children: []) }
    }
#endif
