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
