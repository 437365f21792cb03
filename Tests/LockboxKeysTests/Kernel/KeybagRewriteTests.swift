import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore
@testable import LockboxTestProcess

/// A store that is unlocked for the user stays so at every instant while another process rewrites its keybag.
@Suite(.needsKernelKeyring, .timeLimit(.minutes(10)))
struct KeybagRewriteTests {
    private let store: TestStore

    init() throws {
        store = try TestStore()
        try store.backend().setUp(items: ["k": .whenUnlocked], scope: .user)
    }

    private func expectReadable(_ backend: EncryptedFileBackend) throws {
        #expect(try backend.lockbox().unarchiveObject(forKey: "k") == "old")
    }

    private func backend(_ body: @escaping @Sendable () -> Void) -> EncryptedFileBackend {
        let calls = SystemCalls { _ in
            body()
            return nil
        }
        let kernel = KernelKeyring {
            body()
            return nil
        }
        return store.backend(calls, lockTimeout: .seconds(5), kernel: kernel)
    }

    /// Reads at every system call of the process that rewrites it: by a process that has just started, and by one that has
    /// the store open since before.
    @Test func aReaderAtEveryCallOfARewrite() throws {
        defer { store.lockForEverybody() }
        let old = store.backend()
        try expectReadable(old)
        let (isUp, count) = (Protected(false), Protected(0))
        let rewriting = backend { [store] in
            guard isUp.withLock({ $0 }), count.next().isMultiple(of: Interruption.stride) else { return }
            for reader in [store.backend(), old] {
                #expect(throws: Never.self) { try expectReadable(reader) }
            }
        }
        isUp.withLock { $0 = true }
        try rewriting.rotateKeys()
        isUp.withLock { $0 = false }
        #expect(count.withLock { $0 } > 50)
    }

    /// The other way round: rewritten before one of the reader's system calls, and perhaps before a later one.
    @Test(arguments: Use.allCases, [0, 2]) func aRewriteAtEveryCall(of use: Use, untilTheNext: Int) throws {
        defer { store.lockForEverybody() }
        var number = 0
        while true {
            number += 1
            let rewrites = [number, number + untilTheNext].map { number in
                Interruption(at: number) { [store] in
                    // Resealing would wait for the writer's lock.
                    #expect(throws: Never.self) { try store.backend().keyChanges.rotateKeys(.renew) }
                }
            }
            let backend = backend { rewrites.forEach { $0.call() } }
            if number.isMultiple(of: 2) { try expectReadable(backend) }  // open since before
            rewrites.forEach { $0.raise() }
            #expect(throws: Never.self, "call \(number)") {
                switch use {
                case .read: try expectReadable(backend)
                case .write: try backend.lockbox().archiveObject("old", forKey: "k")
                case .ask: #expect(try backend.lockState == .unlocked)
                }
            }
            if !rewrites[0].hasHappened { break }
            // A keybag has room for the keys of a limited number of changes that left the items for later.
            if number.isMultiple(of: 4) { try store.backend().rotateKeys() }
        }
        #expect(number > 4)
    }

    enum Use: CaseIterable { case read, write, ask }
}
