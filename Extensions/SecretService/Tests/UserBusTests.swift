#if SecretService
    import Foundation
    import LockboxTesting
    import Testing

    @testable import LockboxCore
    @testable import LockboxSecretService
    @testable import LockboxStore

    /// The service among others on one bus.
    @Suite(.enabled(if: DesktopKeyring.isInstalled)) struct UserBusTests {
        private let desktop: DesktopKeyring
        private let server: BusServer

        init() throws {
            desktop = try DesktopKeyring()
            server = BusServer(SecretObjects(SealedBackend.inMemory()))
            let bus = try UserBus(limit: .seconds(10), address: desktop.address)
            #expect(try SecretServiceServer.join(bus))
            try server.add(bus)
        }

        /// Serves while the body runs.
        private func serving(_ body: () throws -> Void) throws {
            var ends: [CInt] = [-1, -1]
            try #require(pipe(&ends) == 0)
            let isOver = DispatchSemaphore(value: 0)
            nonisolated(unsafe) let server = server
            let end = ends[0]
            Thread.detachNewThread {
                do { try server.serve(-1, until: end) { true } } catch { Issue.record("\(error)") }
                isOver.signal()
            }
            defer {
                close(ends[1])
                isOver.wait()
                close(end)
            }
            try body()
        }

        @Test func clientsStoreAndFind() throws {
            try serving {
                let backend = SecretServiceBackend(desktop.access)
                let key = try ItemKey(prefix: "shop", key: "me")
                let value = try ArchivedValue(data: Data("\"hunter2\"".utf8), format: .json)
                try backend.write(ItemChanges(value: value, modified: Date()), to: key)
                #expect(try backend.value(for: key, now: nil) == value)
                #expect(
                    try DesktopKeyring.shell("secret-tool lookup service shop username me", desktop.address)
                        == "hunter2"
                )
            }
        }

        @Test func aSessionIsItsClientsAlone() throws {
            try serving {
                let buses = try (0..<2).map { _ in try UserBus(limit: .seconds(10), address: desktop.address)
                }
                let sessions = try buses.map { bus in
                    let answer = try bus.call(SecretPath.root, SecretObject.service.interface, "OpenSession")
                    {
                        try $0.append("plain")
                        try $0.append(BusProperty.text(""))
                    }
                    _ = try answer.variant(of: "s") { try answer.text() }
                    return try answer.path()
                }
                func close(_ session: String, _ bus: UserBus) -> Bool {
                    (try? bus.call(session, "org.freedesktop.Secret.Session", "Close")) != nil
                }
                #expect(!close(sessions[0], buses[1]) && !close(sessions[1], buses[0]))
                #expect(close(sessions[0], buses[0]) && close(sessions[1], buses[1]))
            }
        }

        @Test func signalsReachThoseWhoListen() throws {
            try serving {
                let bus = try UserBus(limit: .seconds(10), address: desktop.address)
                try bus.callBus("AddMatch") {
                    try $0.append("type='signal',sender='org.freedesktop.secrets'")
                }
                let backend = SecretServiceBackend(desktop.access)
                let value = try ArchivedValue(data: Data(), format: .data)
                try backend.write(
                    ItemChanges(value: value, modified: Date()),
                    to: ItemKey(prefix: "shop", key: "me")
                )
                let path = "\(SecretPath.root)/collection/login"
                #expect(try bus.signal("ItemCreated", from: path, within: .seconds(10)) != nil)
            }
        }

        @Test func whereAKeyringRunsItStays() throws {
            let bus = try UserBus(limit: .seconds(10), address: desktop.address)
            #expect(try !SecretServiceServer.join(bus))
        }
    }
#endif
