#if SecretService
    import Foundation
    import Testing

    @testable @_spi(Extensions) import LockboxCore
    @testable import LockboxSecretService

    /// Programs of the same user may do anything, and the others have their keyring all the same.
    @Suite(.serialized) struct HostileClientTests {
        private static let root = "/org/freedesktop/secrets"
        private static let service = "org.freedesktop.Secret.Service"
        private static let bus = "org.freedesktop.DBus"
        private let service: Service

        init() throws { service = try Service() }

        /// Whether another client is answered.
        private func works() throws -> Bool {
            let client = try service.client()
            return client.hello()
                && client.call(
                    Self.root,
                    Self.service,
                    "SearchItems",
                    "a{ss}",
                    Client.bytes(0) + [0, 0, 0, 0]
                )?.type == 2
        }

        @Test("A call is answered, and one before Hello is not")
        func hello() throws {
            #expect(try works())
            let client = try service.client()
            #expect(client.authenticate())
            #expect(client.call(Self.root, Self.service, "ReadAlias", "s", Client.text("default"))?.type == 3)
            #expect(client.call(Self.root, Self.bus, "AddMatch", "s", Client.text(""))?.type == 3)
        }

        @Test("Handshake and first message in one write, as zbus does it")
        func oneWrite() throws {
            let client = try service.client()
            client.send(
                Array("\0AUTH EXTERNAL 30\r\nNEGOTIATE_UNIX_FD\r\nBEGIN\r\n".utf8)
                    + client.message("/org/freedesktop/DBus", Self.bus, "Hello")
            )
            #expect(client.line()?.hasPrefix("OK ") == true)
            #expect(client.line()?.hasPrefix("ERROR") == true)
            let reply = try #require(client.reply())
            #expect(reply.type == 2)
            #expect(reply.body == Client.text(":1.1"))
        }

        @Test(
            "Bytes that are no handshake end the connection, or are refused",
            arguments: [
                "GET / HTTP/1.1\r\n\r\n", "AUTH EXTERNAL 30\r\n", "\0\r\n\0\r\n", "\0BEGIN\r\nl\u{1}",
                "\0AUTH EXTERNAL zz\r\nBEGIN\r\n",
                "\0" + String(repeating: "AUTH\r\n", count: 50_000),
                "\0" + String(repeating: "x", count: 200_000),
            ]
        )
        func garbage(_ text: String) throws {
            let client = try service.client()
            client.send(text)
            #expect(try works())
        }

        @Test("Bytes that are no message end the connection")
        func noMessages() throws {
            let header: [[UInt8]] = [
                Array("x\u{1}\0\u{1}".utf8) + Array(repeating: 0, count: 12),
                // No type, another version, no serial, longer than a message may be.
                [0x6C, 0, 0, 1] + Client.bytes(0) + Client.bytes(1) + Client.bytes(0),
                [0x6C, 1, 0, 9] + Client.bytes(0) + Client.bytes(1) + Client.bytes(0),
                [0x6C, 1, 0, 1] + Client.bytes(0) + Client.bytes(0) + Client.bytes(0),
                [0x6C, 1, 0, 1] + Client.bytes(0xFFFF_FFFF) + Client.bytes(1) + Client.bytes(0xFFFF_FFFF),
            ]
            for bytes in header {
                let client = try service.client()
                #expect(client.hello())
                client.send(bytes + Array(repeating: 0, count: 64))
                #expect(client.isClosed)
            }
            #expect(try works())
        }

        @Test("Arguments of the wrong types are refused by name, and the connection goes on")
        func wrongTypes() throws {
            let client = try service.client()
            #expect(client.hello())
            for member in [
                "OpenSession", "CreateCollection", "SearchItems", "Unlock", "Lock", "GetSecrets", "SetAlias",
            ] {
                let error = client.call(Self.root, Self.service, member, "u", Client.bytes(7))?.error
                #expect(error?.contains("Error.InvalidArgs") == true)
            }
            let error = client.call("\(Self.root)/collection/none", Self.service, "Get")?.error
            #expect(error?.contains("org.freedesktop.Secret.Error.NoSuchObject") == true)
            #expect(client.call(Self.root, Self.service, "Nothing")?.error?.contains("UnknownMethod") == true)
        }

        @Test("A variant in a variant, as deep as the message is long, is refused")
        func deep() throws {
            let client = try service.client()
            #expect(client.hello())
            // a{sv} with one value that nobody knows, and then a text.
            var value = [UInt8](repeating: 0, count: 0)
            for _ in 0..<100_000 { value += [1, UInt8(ascii: "v"), 0] }
            value += [1, UInt8(ascii: "y"), 0, 0]
            var entry = Client.text("x") + value
            entry = Client.bytes(entry.count) + [0, 0, 0, 0] + entry
            Client.pad(&entry, to: 4)
            let reply = client.call(
                Self.root,
                Self.service,
                "CreateCollection",
                "a{sv}s",
                entry + Client.text("")
            )
            #expect(reply?.type != 2)
            #expect(try works())
        }

        @Test("A message longer than any secret ends the connection before it is there")
        func tooLong() throws {
            let client = try service.client()
            #expect(client.hello())
            let start = client.message(Self.root, Self.service, "Unlock", "ay", [])
            client.send(Array(start[..<4]) + Client.bytes(100 << 20) + Array(start[8...]))
            let megabyte = [UInt8](repeating: 0, count: 1 << 20)
            for _ in 0..<101 where client.send(megabyte) {}
            #expect(client.reply() == nil)
            #expect(try works())
        }

        @Test("A client that reads no answers holds up nobody: its own calls wait")
        func readsNothing() throws {
            let client = try service.client()
            #expect(client.hello())
            let call = client.message(Self.root, "org.freedesktop.DBus.Introspectable", "Introspect")
            // The socket takes some hundred answers.
            for _ in 0..<2000 { client.send(call) }
            #expect(try works())
        }

        @Test("Sessions and match rules have a limit")
        func limits() throws {
            let client = try service.client()
            #expect(client.hello())
            var opened = 0
            while client.call(Self.root, Self.service, "OpenSession", "sv", padded(Client.text("plain")))?
                .type == 2
            { opened += 1 }
            #expect(opened == BusConnection.Limit.sessions)
            var rules = 0
            while client.call(
                "/org/freedesktop/DBus",
                Self.bus,
                "AddMatch",
                "s",
                Client.text("type='signal'")
            )?.type == 2 { rules += 1 }
            #expect(rules == BusConnection.Limit.matches)
        }

        private static let python = "/usr/bin/python3"

        /// Says Hello on many connections of each of some processes, and keeps them. The service answers as many as it takes.
        private static let crowd = #"""
            import os, socket, sys
            path, hello, count, processes = sys.argv[1], bytes.fromhex(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
            for number in range(processes - 1):
                if os.fork() == 0: break
            connections = [socket.socket(socket.AF_UNIX) for _ in range(count)]
            for number, connection in enumerate(connections):
                connection.connect(path)
                connection.sendall(hello)
                if number < 60: connection.recv(1)
            os.write(1, b"!")
            sys.stdin.read()
            """#

        /// Runs `body` while a crowd is there.
        ///
        /// - Parameter client: Writes their first message.
        private func beside(
            _ processes: Int,
            connections: Int,
            as client: Client,
            _ body: () throws -> Void
        ) throws {
            let hello =
                Array("\0AUTH EXTERNAL 30\r\nBEGIN\r\n".utf8)
                + client.message("/org/freedesktop/DBus", Self.bus, "Hello")
            let (process, input, output) = (Process(), Pipe(), Pipe())
            process.executableURL = URL(filePath: Self.python)
            process.arguments = [
                "-c", Self.crowd, service.socket.path, hello.hexadecimal, "\(connections)", "\(processes)",
            ]
            (process.standardInput, process.standardOutput) = (input, output)
            try process.run()
            defer {
                try? input.fileHandleForWriting.close()
                process.waitUntilExit()
            }
            for _ in 0..<processes {
                #expect(try output.fileHandleForReading.read(upToCount: 1) == Data("!".utf8))
            }
            try body()
        }

        private func readsAlias(_ client: Client) -> Bool {
            client.call(Self.root, Self.service, "ReadAlias", "s", Client.text("default"))?.type == 2
        }

        @Test(
            "A process with more connections than there may be loses its own, and no other's",
            .enabled(if: FileManager.default.isExecutableFile(atPath: python))
        )
        func crowd() throws {
            let client = try service.client()
            #expect(client.hello())
            try beside(1, connections: 100, as: client) { () throws in
                #expect(try works())
                #expect(readsAlias(client))
            }
        }

        @Test(
            "Where no process has more than two connections, none loses one",
            .enabled(if: FileManager.default.isExecutableFile(atPath: python))
        )
        func manyClients() throws {
            let clients = try (0..<2).map { _ in try service.client() }
            #expect(clients.allSatisfy { $0.hello() })
            try beside(62, connections: 1, as: clients[0]) { () throws in
                // It waits.
                let late = try service.client()
                #expect(clients.reversed().allSatisfy(readsAlias))
                withExtendedLifetime(late) {}
            }
        }

        /// A text, and a variant with an empty text.
        private func padded(_ text: [UInt8]) -> [UInt8] {
            var bytes = text + [1, UInt8(ascii: "s"), 0]
            Client.pad(&bytes, to: 4)
            return bytes + Client.text("")
        }

        @Test("A name is one client's at a time, and free when the client is gone")
        func names() throws {
            let address = service.socket.address
            var one: UserBus? = try UserBus(limit: .seconds(10), address: address)
            let other = try UserBus(limit: .seconds(10), address: address)
            #expect(try one?.take("lockbox.test.name") == true)
            #expect(try other.take("lockbox.test.name") == false)
            #expect(try other.take("org.freedesktop.secrets") == false)
            #expect(throws: BusError.self) {
                for number in 0..<100 { _ = try other.take("lockbox.test.n\(number)") }
            }
            // It may have no more names.
            try other.callBus("ReleaseName") { try $0.append("lockbox.test.n1") }
            one = nil
            // Until its end is noticed.
            while try !other.take("lockbox.test.name") {}
        }
    }
#endif
