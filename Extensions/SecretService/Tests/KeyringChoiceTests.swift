#if SecretService
    import Foundation
    import LockboxTesting
    import Testing

    @testable import Lockbox
    @testable import LockboxCore
    @testable import LockboxSecretService
    @testable import LockboxStore

    struct KeyringChoiceTests {
        private static let prefix = "com.example.app"
        private let files = SealedBackend.inMemory()
        private let none = KeyringAccess(address: "unix:path=/nonexistent")

        private func lockbox(_ access: KeyringAccess) throws -> Lockbox {
            try Lockbox(keyPrefix: Self.prefix, backend: KeyringChoice.backend(Self.prefix, access, files))
        }

        @Test func whatWasChosenStaysAlsoIfTheKeyringIsMissingOrCameLater() throws {
            let service = try Service()
            let there = KeyringAccess(address: service.socket.address)
            try lockbox(there).archiveObject("v", forKey: "k")
            #expect(try files.prefixes().isEmpty)
            expectError(.notReachable) { try lockbox(none).archiveObject("other", forKey: "k") }
            expectError(.notReachable) { _ = try lockbox(none).unarchiveObject(String.self, forKey: "k") }
            #expect(try lockbox(there).unarchiveObject(String.self, forKey: "k") == "v")

            let files = SealedBackend.inMemory()
            func other(_ access: KeyringAccess) throws -> Lockbox {
                try Lockbox(
                    keyPrefix: Self.prefix,
                    backend: KeyringChoice.backend(Self.prefix, access, files)
                )
            }
            try other(none).archiveObject("f", forKey: "k")
            #expect(try other(there).unarchiveObject(String.self, forKey: "k") == "f")
            #expect(try files.prefixes() == [Self.prefix])
        }

        @Test func anotherKeyringThanTheChosenOneIsNotTakenForAnEmptyOne() throws {
            let (service, other) = (try Service(), try Service())
            let chosen = KeyringAccess(address: service.socket.address)
            let another = KeyringAccess(address: other.socket.address)
            try lockbox(chosen).archiveObject("v", forKey: "k")
            expectError(.notReachable, saying: "another keyring than that of ") {
                _ = try lockbox(another).unarchiveObject(String.self, forKey: "k")
            }
            expectError(.notReachable) { try lockbox(another).archiveObject("other", forKey: "k") }
            expectError(.notReachable) { try KeyringChoice.files.take(Self.prefix, another, files) }
            #expect(try lockbox(chosen).unarchiveObject(String.self, forKey: "k") == "v")
            // Unless the app says so.
            #expect(try KeyringChoice.keyring.take(Self.prefix, another, files).isComplete)
            #expect(try lockbox(another).unarchiveObject(String.self, forKey: "k") == nil)
        }

        @Test("A keyring or a bus that says nothing is not none", arguments: ["keyring", "bus"])
        func silence(_ what: String) throws {
            let desktop = what == "keyring" && DesktopKeyring.isInstalled ? try DesktopKeyring() : nil
            let keyring = try desktop.map { try UserBus(limit: .seconds(10), address: $0.address) }
            #expect(try keyring?.take(BusDriver.serviceName) ?? true)
            let bus = try SecretServiceSocket.temporary()
            defer { bus.remove() }
            let access = KeyringAccess(
                address: desktop?.address ?? bus.address,
                limit: .milliseconds(500)
            )
            expectError(.notReachable) { try lockbox(access).archiveObject("v", forKey: "k") }
            // Nothing was chosen.
            let service = try Service()
            try lockbox(KeyringAccess(address: service.socket.address)).archiveObject("v", forKey: "k")
            #expect(try files.prefixes().isEmpty)
            withExtendedLifetime(keyring) {}
        }

        @Test(.enabled(if: DesktopKeyring.canPython))
        func underLockboxsOwnKeyringTheChoiceIsFiles() throws {
            let keyring = try DesktopKeyring.prompting("never", named: "lockbox")
            try lockbox(keyring.access).archiveObject("v", forKey: "k")
            #expect(try files.prefixes() == [Self.prefix])
        }

        @Test func itemsThatAreInFilesAlreadyStayThere() throws {
            let service = try Service()
            try Lockbox(keyPrefix: Self.prefix, backend: files).archiveObject("old", forKey: "k")
            let lockbox = try lockbox(KeyringAccess(address: service.socket.address))
            #expect(try lockbox.unarchiveObject(String.self, forKey: "k") == "old")
        }

        @Test func aLockedKeyringOrALockedStoreChangesNoChoice() throws {
            let service = try Service()
            try service.store.setPasscode(.value("correct horse"), strength: .interactive)
            try service.store.lock()
            let there = KeyringAccess(address: service.socket.address)
            expectError(.interactionNotAllowed) { try lockbox(there).archiveObject("v", forKey: "k") }
            #expect(try files.prefixes().isEmpty)
            try service.store.unlock(.value("correct horse"))
            try lockbox(there).archiveObject("v", forKey: "k")
            try service.store.lock()
            expectError(.interactionNotAllowed) { try lockbox(there).archiveObject("v", forKey: "k") }
            try files.setPasscode(.value("correct horse"), strength: .interactive)
            try files.lock()
            expectError(.notReachable) { try lockbox(none).archiveObject("v", forKey: "k") }
            try service.store.unlock(.value("correct horse"))
            try lockbox(there).archiveObject("v", forKey: "k")
        }

        @Test func aMoveTakesTheItemsAndTheChoiceAlong() throws {
            let service = try Service()
            let there = KeyringAccess(address: service.socket.address)
            try lockbox(there).archiveObject("v", forKey: "k")
            #expect(try KeyringChoice.files.take(Self.prefix, there, files).isComplete)
            #expect(try lockbox(none).unarchiveObject(String.self, forKey: "k") == "v")
            #expect(try SecretServiceBackend(there).prefixes().isEmpty)
            #expect(try KeyringChoice.keyring.take(Self.prefix, there, files).isComplete)
            expectError(.notReachable) { _ = try lockbox(none).unarchiveObject(String.self, forKey: "k") }
            #expect(try lockbox(there).unarchiveObject(String.self, forKey: "k") == "v")
        }

        @Test func severalProcessesThatBeginAtOnceChooseTheSame() async throws {
            let service = try Service()
            let accesses = [none, KeyringAccess(address: service.socket.address)]
            for round in 0..<20 {
                let prefix = "p\(round)"
                let kinds = try await withThrowingTaskGroup(of: Bool.self) { group in
                    for access in accesses + accesses {
                        group.addTask { [files] in
                            try await files.async {
                                try KeyringChoice.backend(prefix, access, $0) is SecretServiceBackend
                            }
                        }
                    }
                    return try await group.reduce(into: Set<Bool>()) { $0.insert($1) }
                }
                #expect(kinds.count == 1)
            }
        }
    }
#endif
