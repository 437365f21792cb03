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

    /// The other way round: rewritten before one of the reader's system calls, or before two of them.
    @Test(arguments: [0, 1, 2, 3, 5, 8]) func aRewriteAtEveryCallOfAReader(untilTheNext: Int) throws {
        defer { store.lockForEverybody() }
        let old = store.backend()
        try expectReadable(old)
        var number = Interruption.start
        while true {
            number += Interruption.stride
            let rewrites = [number, number + untilTheNext].map { number in
                Interruption(at: number) { [store] in
                    #expect(throws: Never.self) { try store.backend().rotateKeys() }
                }
            }
            let reader = backend { rewrites.forEach { $0.call() } }
            rewrites.forEach { $0.raise() }
            #expect(throws: Never.self, "call \(number)") { try expectReadable(reader) }
            if !rewrites[0].hasHappened { break }
        }
        #expect(number > 10)
    }

    /// The kernel's keys then go with another passcode than the keybag that the other process has.
    @Test(arguments: Use.allCases) func anotherPasscodeAtEveryCall(of use: Use) throws {
        defer { store.lockForEverybody() }
        var (number, passcode) = (0, "1234")
        while true {
            number += 1
            let (old, new) = (passcode, quick + "\(number)")
            let change = Interruption(at: number) { [store] in
                #expect(throws: Never.self) {
                    try store.backend(lockTimeout: .seconds(5)).changePasscode(from: old, to: new)
                }
            }
            let backend = backend { change.call() }
            if number.isMultiple(of: 2) { try expectReadable(backend) }  // open since before
            change.raise()
            #expect(throws: Never.self, "call \(number)") {
                switch use {
                case .read: try expectReadable(backend)
                case .write: try backend.lockbox().archiveObject("old", forKey: "k")
                case .ask: #expect(try backend.lockState == .unlocked)
                }
            }
            if !change.hasHappened { break }
            passcode = new
            // A keybag has room for the keys of a limited number of changes that left the items for later.
            if number.isMultiple(of: 10) { try store.backend().rotateKeys() }
        }
        #expect(number > 5)
    }

    /// Twice during one call: before each call of the kernel's keyring, and before the first look at the store after it or
    /// one of the next two.
    @Test func twoPasscodesDuringOneCall() throws {
        defer { store.lockForEverybody() }
        let passcode = Protected(0)
        try store.backend().changePasscode(from: "1234", to: quick + "0")
        let change: @Sendable () -> Void = { [store] in
            #expect(throws: Never.self) {
                let number = passcode.withLock { $0 }
                try store.backend(lockTimeout: .seconds(5))
                    .changePasscode(from: quick + "\(number)", to: quick + "\(number + 1)")
                passcode.withLock { $0 += 1 }
            }
        }
        var (first, isOver) = (0, false)
        while !isOver {
            first += 1
            for second in first...first + 2 {
                try store.backend().rotateKeys()
                isOver = try !expectUnlocked(during: change, atCall: first, andAfter: second)
            }
        }
        // The record is looked for, and read.
        #expect(first > 2)
    }

    /// - Returns: Whether a call of the first number was made.
    private func expectUnlocked(
        during change: @escaping @Sendable () -> Void,
        atCall first: Int,
        andAfter second: Int
    )
        throws -> Bool
    {
        let isNext = Protected(false)
        let kernelCalls = [
            Interruption(at: first, change), Interruption(at: second) { isNext.withLock { $0 = true } },
        ]
        let kernel = KernelKeyring {
            kernelCalls.forEach { $0.call() }
            return nil
        }
        let calls = SystemCalls { _ in
            let isNow = isNext.withLock { isNext in
                defer { isNext = false }
                return isNext
            }
            if isNow { change() }
            return nil
        }
        let backend = store.backend(calls, lockTimeout: .seconds(5), kernel: kernel)
        kernelCalls.forEach { $0.raise() }
        #expect(try backend.lockState == .unlocked, "calls \(first) and \(second)")
        return kernelCalls[0].hasHappened
    }

    enum Use: CaseIterable { case read, write, ask }
}

extension EncryptedFileBackend {
    fileprivate func changePasscode(from old: String, to new: String) throws {
        try unlock(.value(old))
        // The items are left for later: whoever is interrupted may hold their lock.
        try changePasscode(to: .value(new), strength: .interactive, resealing: false)
    }
}
