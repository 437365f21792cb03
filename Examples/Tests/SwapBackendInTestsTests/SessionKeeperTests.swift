import Foundation
import Lockbox
import LockboxTesting
import Testing

@testable import SwapBackendInTests

@Suite struct SessionKeeperTests {
    let alice = Session(user: "alice", token: "8f14e45f")

    func keeper(_ backend: any LockboxBackend) throws -> SessionKeeper {
        SessionKeeper(lockbox: try Lockbox(keyPrefix: "com.example.app", backend: backend))
    }

    // MARK: With nothing on the disk

    @Test func nobodyIsSignedInAtFirst() throws {
        #expect(try keeper(InMemoryBackend()).start() == .signedOut)
    }

    @Test func aSessionIsRemembered() throws {
        let backend = InMemoryBackend()
        #expect(try keeper(backend).signIn(alice) == .remembered)
        #expect(try keeper(backend).start() == .signedIn(alice))
    }

    // MARK: With a backend that fails

    @Test func aLockedStoreSignsNobodyOut() throws {
        let backend = FailingBackend()
        let keeper = try keeper(backend)
        _ = try keeper.signIn(alice)
        backend.fail(.read, with: LockboxError.interactionNotAllowed(.whenUnlocked))
        #expect(try keeper.start() == .locked)
        backend.succeed()
        #expect(try keeper.start() == .signedIn(alice))
    }

    @Test(arguments: [
        LockboxError.corrupt(record: "session", reason: "it is cut short"),
        LockboxError.authenticationFailed(record: "session"),
    ])
    func aDamagedSessionIsSaidAndReplaced(_ error: LockboxError) throws {
        let backend = FailingBackend()
        let keeper = try keeper(backend)
        backend.fail(.read, times: 1, with: error)
        #expect(try keeper.start() == .damaged)
        #expect(try keeper.signIn(alice) == .remembered)
        #expect(try keeper.start() == .signedIn(alice))
    }

    @Test func aFullDiskDoesNotStopASignIn() throws {
        let backend = FailingBackend()
        let keeper = try keeper(backend)
        backend.fail(.write, with: LockboxError.storageFailure(operation: "write", path: "/", errno: ENOSPC))
        #expect(try keeper.signIn(alice) == .untilTheEnd)
        backend.succeed()
        #expect(try keeper.start() == .signedOut)
    }

    @Test func everyOtherFailureIsThrown() throws {
        let backend = FailingBackend()
        let keeper = try keeper(backend)
        let broken = LockboxError.storageFailure(operation: "read", path: "/", errno: EIO)
        backend.fail(with: broken)
        #expect(throws: broken) { try keeper.start() }
        #expect(throws: broken) { try keeper.signIn(alice) }
    }
}
