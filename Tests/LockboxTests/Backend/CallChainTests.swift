#if os(Linux) && canImport(Runtime)
    import Foundation
    import Runtime
    import Testing

    import Lockbox
    @testable import LockboxCore
    @testable import LockboxFiles
    @testable import LockboxSealed

    /// How many functions lie between a public call and the system calls that it makes. CONTRIBUTING names them.
    @Suite(.serialized) struct CallChainTests {
        private let store: TestStore
        private let chains = CallChains()

        init() throws { store = try TestStore() }

        /// As a process that has just started.
        private func backend() -> EncryptedFileBackend {
            store.backend(
                SystemCalls { [chains] _ in
                    chains.capture()
                    return nil
                },
                kernel: KernelKeyring {
                    [chains] in
                    chains.capture()
                    return nil
                }
            )
        }

        @Test func archiveObjectReachesTheDiskInTenFunctions() throws {
            let lockbox = try backend().lockbox()
            _ = try lockbox.unarchiveObject(String.self, forKey: "key")  // opens the keys
            try store.lockbox().archiveObject("other", forKey: "other")
            _ = try lockbox.unarchiveObject(String.self, forKey: "other")
            for key in ["key", "key", "other"] {
                try chains.record { try lockbox.archiveObject("new", forKey: key) }
                usleep(2000)  // The folders' paths are looked at again.
                try chains.record { try lockbox.archiveObject("newer", forKey: key) }
            }
            let neighbor = try lockbox.backend.lockbox("com.example.neighbor")
            try chains.record { try neighbor.archiveObject("new", forKey: "key") }
            try chains.expect(
                from: "Lockbox.archiveObject",
                atMost: 10,
                including: ["TemporaryFiles.rename", "Directory.writeFiles"]
            )
        }

        @Test func theFirstAccessOpensOrCreatesTheKeysInElevenFunctions() throws {
            for _ in 0..<2 {
                let lockbox = try backend().lockbox()
                try chains.record { try lockbox.archiveObject("new", forKey: "key") }
            }
            try chains.expect(
                from: "KeyStore.keyring",
                atMost: 11,
                including: ["KeyStore.create", "KeyStore.readKeybag"]
            )
        }

        @Test func unarchiveObjectReachesTheDiskInTenFunctions() throws {
            try store.lockbox().archiveObject("new", forKey: "key")
            let lockbox = try backend().lockbox()
            _ = try lockbox.allKeys()
            for key in ["key", "absent", "key"] {
                try chains.record { _ = try lockbox.unarchiveObject(String.self, forKey: key) }
                usleep(2000)
            }
            let neighbor = try lockbox.backend.lockbox("com.example.neighbor")
            try chains.record { _ = try neighbor.unarchiveObject(String.self, forKey: "key") }
            try chains.expect(
                from: "Lockbox.unarchiveObject",
                atMost: 10,
                including: ["Directory.readRecord", "StoreFolders.isInPlace"]
            )
        }

        @Test(arguments: [UnlockScope.process, .user])
        func unlockReachesDiskAndKernelInTwelveFunctions(scope: UnlockScope) throws {
            defer { store.lockForEverybody() }
            try store.backend().setUp(items: .everyClass)
            for backend in [backend(), backend()] {
                for _ in 0..<2 {
                    let reached = try chains.record { try backend.unlock(.value("1234"), scope: scope) }
                    if hasKernelKeyring { #expect(reached == scope) }
                    usleep(2000)
                }
            }
            let kernel =
                scope == .user && hasKernelKeyring ? ["KernelKeyring.publish", "SeenGeneration.write"] : []
            try chains.expect(
                from: "SealedBackend.unlock",
                atMost: 12,
                including: ["KeyStore.readKeybag"] + kernel
            )
        }
    }
#endif
