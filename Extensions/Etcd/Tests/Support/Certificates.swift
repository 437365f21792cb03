#if Etcd
    import Foundation

    /// A certificate authority with certificates for a server and a client, made with openssl.
    struct Certificates {
        let folder: String
        var authority: String { "\(folder)/ca.pem" }
        var server: String { "\(folder)/server.pem" }
        var serverKey: String { "\(folder)/server.key" }
        var client: String { "\(folder)/client.pem" }
        var clientKey: String { "\(folder)/client.key" }

        static var canBeMade: Bool { EtcdServer.path(of: "openssl") != nil }

        /// - Parameters:
        ///   - name: Whom the server's certificate is for.
        ///   - days: How long it is valid; 0 for one that has expired.
        init(in folder: String, server name: String = "IP:127.0.0.1", days: Int = 2) throws {
            self.folder = folder
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            let script = """
                set -e
                key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1"; }
                key ca.key
                openssl req -x509 -new -key ca.key -subj /O=test-ca -days 2 -out ca.pem
                # The gateway calls its own server as a client.
                printf 'subjectAltName=%s\\nextendedKeyUsage=serverAuth,clientAuth\\n' "$1" >server.ext
                echo 'extendedKeyUsage=clientAuth' >client.ext
                for one in server client; do
                    key $one.key
                    openssl req -new -key $one.key -subj /O=$one -out $one.csr
                    openssl x509 -req -in $one.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days "$2" \\
                        -extfile $one.ext -out $one.pem
                done
                """
            let process = Process()
            process.executableURL = URL(fileURLWithPath: "/bin/sh")
            process.arguments = ["-c", script, "sh", name, "\(days)"]
            process.currentDirectoryURL = URL(fileURLWithPath: folder)
            process.standardError = FileHandle.nullDevice
            process.standardOutput = FileHandle.nullDevice
            try process.run()
            process.waitUntilExit()
            guard process.terminationStatus == 0 else { throw CocoaError(.fileWriteUnknown) }
        }
    }
#endif
