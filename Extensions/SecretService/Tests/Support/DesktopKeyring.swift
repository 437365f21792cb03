#if SecretService
    import Foundation

    @testable import LockboxSecretService

    /// A D-Bus of its own, and on it gnome-keyring or another program, until the instance is gone.
    final class DesktopKeyring: @unchecked Sendable {
        static let isInstalled = ["/usr/bin/gnome-keyring-daemon", "/usr/bin/dbus-daemon"].allSatisfy {
            FileManager.default.isExecutableFile(atPath: $0)
        }

        static let canPython =
            isInstalled
            && FileManager.default.fileExists(atPath: "/usr/lib/python3/dist-packages/secretstorage")

        let address: String
        private let folder: URL
        private var processes: [Process] = []

        /// Only the bus.
        init() throws {
            folder = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            let output = Pipe()
            let bus = Process()
            bus.executableURL = URL(filePath: "/usr/bin/dbus-daemon")
            bus.arguments = ["--session", "--nofork", "--nopidfile", "--print-address"]
            bus.standardOutput = output
            try bus.run()
            processes.append(bus)
            var line = Data()
            while let byte = try output.fileHandleForReading.read(upToCount: 1), byte != Data("\n".utf8) {
                line += byte
            }
            address = String(decoding: line, as: UTF8.self)
        }

        /// gnome-keyring, unlocked.
        static func gnome() throws -> DesktopKeyring {
            let keyring = try DesktopKeyring()
            let input = Pipe()
            try keyring.start(
                ["/usr/bin/gnome-keyring-daemon", "--foreground", "--unlock", "--components=secrets"],
                input
            )
            try input.fileHandleForWriting.write(contentsOf: Data("password".utf8))
            try input.fileHandleForWriting.close()
            try keyring.wait()
            return keyring
        }

        /// A keyring that is locked, and whose prompt is answered like this: `never`, `dismiss`, or `unlock`.
        ///
        /// - Parameter program: The name of its process.
        static func prompting(_ answer: String, named program: String = "python3") throws -> DesktopKeyring {
            let keyring = try DesktopKeyring()
            let python = keyring.folder.appending(path: program)
            try FileManager.default.createSymbolicLink(
                at: python,
                withDestinationURL: URL(filePath: "/usr/bin/python3")
            )
            try keyring.start([python.path, "-c", script, answer])
            try keyring.wait()
            return keyring
        }

        deinit {
            for process in processes {
                kill(process.processIdentifier, SIGKILL)
                process.waitUntilExit()
            }
            try? FileManager.default.removeItem(at: folder)
        }

        var isRunning: Bool { processes.allSatisfy(\.isRunning) }

        var access: KeyringAccess { KeyringAccess(address: address) }

        private static let script = #"""
            import sys

            from jeepney import DBusAddress, HeaderFields, MessageType, new_error, new_method_call, new_method_return, new_signal
            from jeepney.io.blocking import open_dbus_connection

            ROOT, PROMPT = "/org/freedesktop/secrets", "/org/freedesktop/secrets/prompt/p1"
            bus = open_dbus_connection("SESSION")
            driver = DBusAddress("/org/freedesktop/DBus", "org.freedesktop.DBus", "org.freedesktop.DBus")
            bus.send_and_get_reply(new_method_call(driver, "RequestName", "su", ("org.freedesktop.secrets", 4)))
            locked = True
            while True:
                call = bus.receive()
                if call.header.message_type != MessageType.method_call:
                    continue
                member = call.header.fields[HeaderFields.member]
                answers = {
                    "OpenSession": ("vo", (("s", ""), f"{ROOT}/session/s1")), "ReadAlias": ("o", (f"{ROOT}/collection/login",)),
                    "Get": ("v", (("b", locked),)), "SearchItems": ("aoao", ([], [])), "Unlock": ("aoo", ([], PROMPT)), "Prompt": ("", ()),
                    "Dismiss": ("", ()),
                }
                if member not in answers:
                    bus.send(new_error(call, "org.freedesktop.DBus.Error.UnknownMethod"))
                    continue
                bus.send(new_method_return(call, *answers[member]))
                if member == "Prompt" and sys.argv[1] != "never":
                    locked = sys.argv[1] == "dismiss"
                    bus.send(new_signal(DBusAddress(PROMPT, interface="org.freedesktop.Secret.Prompt"), "Completed", "bv", (locked, ("ao", []))))
            """#

        /// Until there is one that answers.
        private func wait() throws {
            for _ in 0..<600 {
                if case .running = UserKeyring.look(address) { return }
                usleep(50_000)
            }
            throw POSIXError(.ETIMEDOUT)
        }

        private func start(_ words: [String], _ input: Pipe? = nil) throws {
            let process = process(words)
            if let input { process.standardInput = input }
            process.standardOutput = FileHandle.nullDevice
            process.standardError = FileHandle.nullDevice
            try process.run()
            processes.append(process)
        }

        private func process(_ words: [String]) -> Process {
            Self.process(
                words,
                [
                    "HOME": folder.path, "XDG_RUNTIME_DIR": folder.path, "DBUS_SESSION_BUS_ADDRESS": address,
                ]
            )
        }

        private static func process(_ words: [String], _ variables: [String: String]) -> Process {
            let process = Process()
            process.executableURL = URL(filePath: words[0])
            process.arguments = Array(words.dropFirst())
            process.environment = variables.merging(["PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"]) { $1 }
            return process
        }

        /// Runs a command of the shell with the keyring at an address, and returns what it prints.
        static func shell(_ command: String, _ address: String) throws -> String {
            let output = Pipe()
            let process = process(
                ["/bin/sh", "-c", command],
                ["HOME": NSTemporaryDirectory(), "DBUS_SESSION_BUS_ADDRESS": address]
            )
            process.standardOutput = output
            try process.run()
            let text = String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
            process.waitUntilExit()
            return text
        }
    }
#endif
