import Foundation
import Testing

@testable import Lockbox

/// A store that is unlocked for the user stays so at every instant while another process rewrites its keybag.
@Suite(.enabled(if: hasKernelKeyring, "the kernel gives this process no keyring"), .timeLimit(.minutes(10)))
struct KeybagRewriteTests {
    private let store: TestStore

    init() throws {
        store = try TestStore()
        let first = store.backend()
        try first.setPasscode(.value("1234"), strength: .interactive)
        try Lockbox(keyPrefix: TestStore.prefix, backend: first).archiveObject("v", forKey: "k")
        try #require(try store.backend().unlock(.value("1234"), scope: .user) == .user)
    }

    private func clear() { try? store.backend().lock(includingAfterFirstUnlock: true) }

    private func expectReadable(_ backend: EncryptedFileBackend) throws {
        let lockbox = try Lockbox(keyPrefix: TestStore.prefix, backend: backend)
        #expect(try lockbox.unarchiveObject(forKey: "k") == "v")
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
        let storage = FileStorage(directory: store.directory, calls: calls, lockTimeout: .seconds(5))
        return EncryptedFileBackend(storage: storage, deviceKey: .stored, kernel: kernel)
    }

    /// Reads at every system call of the process that rewrites it: by a process that has just started, and by one that has
    /// the store open since before.
    @Test func aReaderAtEveryCallOfARewrite() throws {
        defer { clear() }
        let old = store.backend()
        try expectReadable(old)
        let (isUp, count) = (Protected(false), Protected(0))
        let rewriting = backend { [store] in
            guard isUp.withLock({ $0 }) else { return }
            count.withLock { $0 += 1 }
            for reader in [store.backend(), old] {
                #expect(throws: Never.self) { try expectReadable(reader) }
            }
        }
        isUp.withLock { $0 = true }
        try rewriting.changePasscode(to: .value("5678"), strength: .interactive)
        try rewriting.rotateKeys()
        isUp.withLock { $0 = false }
        #expect(count.withLock { $0 } > 50)
    }

    /// The other way round: rewritten before one of the reader's system calls, whichever that is.
    @Test func aRewriteAtEveryCallOfAReader() throws {
        defer { clear() }
        var number = 0
        while true {
            number += 1
            let interruption = Interruption(at: number) { [store] in
                #expect(throws: Never.self) { try store.backend().rotateKeys() }
            }
            let reader = backend { interruption.call() }
            interruption.raise()
            #expect(throws: Never.self, "call \(number)") { try expectReadable(reader) }
            if !interruption.hasHappened { break }
        }
        #expect(number > 10)
    }
}
