#if SecretService
    import LockboxPlatform

    /// How a client and the service pass secrets. It ends with the client's connection.
    struct Session {
        let path: String
        /// Nil if secrets are passed as they are.
        let cipher: SessionCipher?

        /// Reads a secret: the session's path, the cipher's parameters, the value, and its content type.
        static func secret(from message: BusMessage, of connection: BusConnection) throws -> Secret {
            try message.inside("r", Secret.type) {
                let (path, parameters) = (try message.path(), try message.bytes())
                let session = try connection.session(at: path)
                let (bytes, contentType) = (try message.bytes(), try message.text())
                guard let cipher = session.cipher else {
                    return Secret(value: Data(bytes), contentType: contentType)
                }
                return Secret(value: try cipher.decrypt(bytes, vector: parameters), contentType: contentType)
            }
        }

        func append(_ secret: Secret, to message: BusMessage) throws {
            let sealed = try cipher?.encrypt(secret.value)
            try message.appendInside("r", Secret.type) {
                try message.append(path: path)
                try message.append(sealed?.vector ?? [])
                if let sealed { try message.append(sealed.bytes) } else { try message.append(secret.value) }
                try message.append(secret.contentType)
            }
        }
    }

    struct Secret: Equatable {
        static let type = "oayays"

        let value: Data
        let contentType: String
    }

    extension BusConnection {
        func session(at path: String) throws(BusError) -> Session {
            guard let session = sessions[path] else { throw .noSession }
            return session
        }
    }
#endif
