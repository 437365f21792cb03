#if Etcd
    import CCurl
    import LockboxPlatform

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
            // Of another type with each version of libcurl.
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
#endif
