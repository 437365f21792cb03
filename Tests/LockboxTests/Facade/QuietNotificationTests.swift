import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// Changes that are not reported, and the cost of waiting for changes.
@Suite(.tags(.waits)) struct QuietNotificationTests {
    /// Notices that wait to be sent, and what is reported of them.
    private final class Queue: Sendable {
        let notices = Protected<[@Sendable () -> Void]>([])
        let changes = Protected<[LockboxChange]>([])

        func send() {
            let waiting = notices.withLock { notices in
                defer { notices = [] }
                return notices
            }
            waiting.forEach { $0() }
        }

        @Sendable func receive(_ change: Result<LockboxChange, any Error>) {
            if case .success(let change) = change { changes.withLock { $0.append(change) } }
        }
    }

    /// An item that was made and removed before anybody looked is nothing that could be read again.
    @Test func whatCameAndWentUnseenIsNotReported() throws {
        let queue = Queue()
        let storage = RelayedStorage { notice, report in
            queue.notices.withLock { $0.append { report(notice) } }
        }
        let backend = SealedBackend(storage: storage, deviceKey: .bytes(Array(0..<32)))
        let lockbox = try backend.lockbox("p")
        try lockbox.archiveObject(0, forKey: "known")
        queue.send()
        let cancel = try backend.subscribe(prefix: "p", queue.receive)
        try lockbox.archiveObject(1, forKey: "gone")
        try lockbox.removeObject(forKey: "gone")
        try lockbox.archiveObject(2, forKey: "stays")
        queue.send()
        #expect(queue.changes.withLock { $0 } == [.item("stays")])
        // Those that were seen are reported, under their names.
        for key in ["known", "stays"] { try lockbox.removeObject(forKey: key) }
        queue.send()
        #expect(queue.changes.withLock { $0 } == [.item("stays"), .item("known"), .item("stays")])
        cancel()
    }

    /// Its key was never known, but it was there.
    @Test(arguments: [true, false]) func aDamagedItemThatGoesIsReported(_ isDamagedBefore: Bool) async throws
    {
        let store = try TestStore()
        let backend = store.backend()
        let lockbox = try backend.lockbox()
        try await lockbox.archiveObject(0, forKey: "other")
        let name = try backend.recordName(of: ItemKey(prefix: TestStore.prefix, key: "k"))
        let path = backend.storage.location(of: name)
        func damage() throws { try Data("damaged".utf8).write(to: URL(filePath: path)) }
        if isDamagedBefore { try damage() }
        let queue = Queue()
        let cancel = try await backend.async { try $0.subscribe(prefix: TestStore.prefix, queue.receive) }
        if !isDamagedBefore {
            try damage()
            try await wait(for: .unknownItem, queue)
        }
        unlink(path)
        try await wait(for: .unknownItem, queue)
        cancel()
    }

    private func wait(for change: LockboxChange, _ queue: Queue) async throws {
        let deadline = ContinuousClock.now + .seconds(10)
        while !queue.changes.withLock({ $0.contains(change) }), ContinuousClock.now < deadline {
            try await Task.sleep(for: .milliseconds(1))
        }
        #expect(queue.changes.withLock { $0.contains(change) })
        queue.changes.withLock { $0 = [] }
    }

    #if os(Linux)
        /// It sleeps in the kernel, and does not wake up to look.
        @Test(.enabled(if: isUnsanitized, "a sanitizer has threads of its own")) func waitingCostsNothing()
            throws
        {
            let store = try TestStore()
            let process = try TestProcess("idle", store.directory, "2")
            let output = process.allOutput()
            #expect(process.wait() == 0, "a change after that was not noticed")
            let numbers = output.split(whereSeparator: \.isWhitespace).compactMap { Int($0) }
            try #require(numbers.count == 2, "\(output)")
            #expect(numbers[0] < 5000, "microseconds of the processor in two seconds")
            #expect(numbers[1] < 10, "context switches in two seconds")
        }
    #endif
}
