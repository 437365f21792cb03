#if SecretService
    import Foundation
    import LockboxTesting
    import Testing

    @testable import Lockbox
    @testable import LockboxCore
    @testable import LockboxSecretService
    @testable import LockboxStore

    @Suite(.serialized) struct SecretServiceBackendTests {
        /// Makes an item's attribute unreadable.
        @Sendable private static func damage(_ address: String, _ key: ItemKey) throws {
            let bus = try UserBus(limit: .seconds(10), address: address)
            try Keyring.with(KeyringAccess(address: address)) { keyring in
                for item in try keyring.items(with: ItemForm.attributes(of: key)) {
                    try bus.call(item.path, SecretObjects.properties, "Set") {
                        try $0.append("org.freedesktop.Secret.Item")
                        try $0.append("Attributes")
                        try $0.append(.texts(item.attributes.merging(["lockbox": "{"]) { $1 }))
                    }
                }
            }
        }

        // MARK: Conformance

        @Test(arguments: BackendConformance.all)
        func conformsWithLockboxsOwnKeyring(_ requirement: BackendConformance) throws {
            let folder = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString).path
            defer { try? FileManager.default.removeItem(atPath: folder) }
            let service = try Service(store: SealedBackend(directory: folder))
            let address = service.socket.address
            try requirement.check(damage: { try Self.damage(address, $1) }) {
                SecretServiceBackend(KeyringAccess(address: address))
            }
        }

        @Test(.enabled(if: DesktopKeyring.isInstalled), arguments: BackendConformance.all)
        func conformsWithGnomeKeyring(_ requirement: BackendConformance) throws {
            for attempt in 1... {
                let keyring = try DesktopKeyring.gnome()
                do {
                    let address = keyring.address
                    return try requirement.check(damage: { try Self.damage(address, $1) }) {
                        SecretServiceBackend(keyring.access)
                    }
                } catch {
                    // gnome-keyring 42.1 crashes now and then, whatever it is asked.
                    if keyring.isRunning || attempt == 3 { throw error }
                }
            }
        }

        // MARK: Together with other programs

        enum Desktop: String, CaseIterable, CustomTestStringConvertible {
            case lockbox, gnome

            var testDescription: String { rawValue }

            /// Calls a closure with the address of a new keyring's bus.
            func run(_ body: (String) throws -> Void) throws {
                switch self {
                case .lockbox:
                    let service = try Service()
                    try withExtendedLifetime(service) { try body(service.socket.address) }
                case .gnome:
                    if !DesktopKeyring.isInstalled { return }
                    let keyring = try DesktopKeyring.gnome()
                    try withExtendedLifetime(keyring) { try body(keyring.address) }
                }
            }
        }

        private func lockbox(_ address: String, _ prefix: String = "shop") throws -> Lockbox {
            try Lockbox(keyPrefix: prefix, backend: SecretServiceBackend(KeyringAccess(address: address)))
        }

        @Test(.enabled(if: DesktopKeyring.canPython), arguments: Desktop.allCases)
        func pythonsKeyringFindsWhatAnAppHasStoredAndTheReverse(_ desktop: Desktop) throws {
            try desktop.run { address in
                let lockbox = try lockbox(address)
                let python = "/usr/bin/python3 -m keyring"
                func shell(_ command: String) throws -> String { try DesktopKeyring.shell(command, address) }
                #expect(try shell("echo hunter2 | \(python) set shop me") == "")
                #expect(try lockbox.unarchiveObject(String.self, forKey: "me") == "hunter2")
                try lockbox.archiveObject("swördfish", forKey: "me")
                #expect(try shell("\(python) get shop me") == "swördfish\n")
                #expect(try shell("secret-tool lookup service shop username me") == "swördfish")
                // One that Lockbox has stored first.
                try lockbox.archiveObject("one", forKey: "you")
                _ = try shell("echo two | \(python) set shop you")
                #expect(try lockbox.unarchiveObject(String.self, forKey: "you") == "two")
                #expect(try shell("\(python) get shop you") == "two\n")
                #expect(Set(try lockbox.list().items.keys) == ["me", "you"])
                try lockbox.removeObject(forKey: "you")
                #expect(try shell("\(python) get shop you || echo none") == "none\n")
                _ = try shell("printf three | secret-tool store --label=l service shop username you")
                #expect(try lockbox.unarchiveObject(String.self, forKey: "you") == "three")
                #expect(try lockbox.list().items["you"]?.label == "l")
                // Another program's item is not a number, and stays.
                expectError(.decodingFailed) { _ = try lockbox.unarchiveObject(Int.self, forKey: "you") }
            }
        }

        @Test(arguments: Desktop.allCases)
        func everyValueComesBackWithAllThatItHas(_ desktop: Desktop) throws {
            try desktop.run { address in
                let lockbox = try lockbox(address)
                let options = WriteOptions(
                    expires: .after(1000),
                    label: "l\0",
                    comment: .set(String(repeating: "c", count: 4000)),
                    attributes: ["a": "b"]
                )
                for text in ["", "a\0b", "lockbox 1\n{}", "\"quoted\"", "2", "\u{FEFF}é"] {
                    try lockbox.archiveObject(text, forKey: "text")
                    #expect(try lockbox.unarchiveObject(String.self, forKey: "text") == text)
                    try lockbox.archiveObject(text, forKey: "with options", options: options)
                    #expect(try lockbox.unarchiveObject(String.self, forKey: "with options") == text)
                }
                let item = try #require(try lockbox.list().items["with options"])
                #expect(item.label == "l\0" && item.comment?.count == 4000 && item.searchable == ["a": "b"])
                try lockbox.archiveObject([1: Date(timeIntervalSinceReferenceDate: 0.1)], forKey: "other")
                #expect(
                    try lockbox.unarchiveObject([Int: Date].self, forKey: "other")?[1]?
                        .timeIntervalSinceReferenceDate
                        == 0.1
                )
            }
        }

        /// A process was killed after it had added a new item, and before it had removed the old one.
        @Test(arguments: Desktop.allCases)
        func whatAnInterruptedWriteHasLeftCountsOnce(_ desktop: Desktop) throws {
            try desktop.run { address in
                let lockbox = try lockbox(address)
                try lockbox.archiveObject("old", forKey: "k")
                let access = KeyringAccess(address: address)
                let key = try ItemKey(prefix: "shop", key: "k")
                try Keyring.with(access) { keyring in
                    let items = try keyring.items(with: ItemForm.attributes(of: key))
                    let value = try ArchivedValue(data: Data("\"new\"".utf8), format: .json)
                    let form = try ItemForm(
                        StoredItem(key: key, value: value, modified: Date()),
                        replacing: items
                    )
                    try keyring.create(form.secret, label: form.label, attributes: form.attributes)
                }
                #expect(try lockbox.unarchiveObject(String.self, forKey: "k") == "new")
                #expect(try lockbox.list().items.count == 1)
                try lockbox.update("k", as: String.self) { $0 = ($0 ?? "") + "er" }
                #expect(try lockbox.unarchiveObject(String.self, forKey: "k") == "newer")
                let count = try Keyring.with(access) {
                    try $0.items(with: ItemForm.attributes(of: key)).count
                }
                #expect(count == 1)
            }
        }

        // MARK: Locked, and none

        @Test(.enabled(if: DesktopKeyring.isInstalled))
        func aLockedKeyringHasNothingToSayAndAsksNobody() throws {
            let keyring = try DesktopKeyring.gnome()
            let lockbox = try lockbox(keyring.address)
            try lockbox.archiveObject("v", forKey: "k")
            let bus = try UserBus(limit: .seconds(10), address: keyring.address)
            try bus.call(SecretPath.root, SecretObject.service.interface, "Lock") {
                try $0.append(paths: ["\(SecretPath.root)/collection/login"])
            }
            expectLocked(lockbox)
            // Nothing shows the prompt here.
            let access = KeyringAccess(promptLimit: .milliseconds(300), address: keyring.address)
            expectError(.interactionNotAllowed) { _ = try SecretServiceBackend(access).prefixes() }
            expectError(.interactionNotAllowed) { _ = try SecretServiceItems(keyring.access) }
        }

        @Test func aLockedStoreIsALockedKeyring() throws {
            let service = try Service()
            let lockbox = try lockbox(service.socket.address)
            try lockbox.archiveObject("v", forKey: "k")
            try service.store.setPasscode(.value("correct horse"), strength: .interactive)
            try service.store.lock()
            expectLocked(lockbox)
            try service.store.unlock(.value("correct horse"))
            #expect(try lockbox.unarchiveObject(String.self, forKey: "k") == "v")
        }

        private func expectLocked(_ lockbox: Lockbox) {
            for body in [
                { _ = try lockbox.unarchiveObject(String.self, forKey: "k") },
                { _ = try lockbox.unarchiveObject(String.self, forKey: "absent") },
                { try lockbox.archiveObject("w", forKey: "k") }, { _ = try lockbox.list() },
                { try lockbox.removeObject(forKey: "k") }, { try lockbox.removeAllObjects() },
            ] as [() throws -> Void] { expectError(.interactionNotAllowed, from: body) }
        }

        @Test(.enabled(if: DesktopKeyring.canPython), arguments: ["never", "dismiss", "unlock"])
        func aPromptIsAwaitedForSomeTimeAndNoLonger(_ answer: String) async throws {
            let keyring = try DesktopKeyring.prompting(answer)
            let limit = Duration.milliseconds(answer == "never" ? 200 : 60_000)
            let access = KeyringAccess(promptLimit: limit, address: keyring.address)
            let lockbox = try Lockbox(keyPrefix: "shop", backend: SecretServiceBackend(access))
            do {
                #expect(try await lockbox.unarchiveObject(String.self, forKey: "k") == nil)
                #expect(answer == "unlock")
            } catch let error as LockboxError {
                #expect(
                    error.code == (answer == "never" ? .interactionNotAllowed : .userCanceled),
                    "\(answer)"
                )
            }
            if answer == "unlock" { return }
            // Without a limit, no prompt is shown.
            let backend = SecretServiceBackend(keyring.access)
            await #expect(throws: LockboxError.interactionNotAllowed(.whenUnlocked)) {
                try await backend.async { try $0.prefixes() }
            }
        }

        @Test func withoutAKeyringEachCallSaysWhatToDo() throws {
            var addresses = ["unix:path=/nonexistent", "nonsense"]
            let bus = DesktopKeyring.isInstalled ? try DesktopKeyring() : nil
            if let bus { addresses.append(bus.address) }
            for address in addresses {
                let lockbox = try lockbox(address)
                for body in [
                    { _ = try lockbox.unarchiveObject(String.self, forKey: "k") },
                    { try lockbox.archiveObject("w", forKey: "k") }, { try lockbox.removeAllObjects() },
                ] as [() throws -> Void] {
                    do {
                        try body()
                        Issue.record("no error")
                    } catch let error as LockboxError {
                        #expect(
                            error.code == .notReachable && "\(error)".contains("lockbox secret-service --"),
                            "\(error)"
                        )
                    }
                }
            }
            #expect(UserKeyring.look("nonsense") == .noBus)
            if let bus { #expect(UserKeyring.look(bus.address) == .none) }
        }
    }
#endif
