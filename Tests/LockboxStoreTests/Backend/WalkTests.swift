import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// Walks over the names of items, while the only one is moved.
@Suite struct WalkTests {
    enum Walk: CaseIterable { case list, prefixes, removeAll }

    private func item(_ key: String) throws -> StoredItem {
        try StoredItem(
            key: ItemKey(prefix: "a", key: key),
            value: ArchivedValue(data: Data("1".utf8), format: .json),
            modified: Date()
        )
    }

    /// Before each of the calls that the walk makes, in turn.
    @Test(arguments: Walk.allCases) func anItemThatIsMovedMeanwhileIsFound(_ walk: Walk) throws {
        let (count, isWalking, moves) = (Protected(0), Protected(false), Protected(0))
        for number in 1... {
            let store = try TestStore()
            let other = store.backend()
            try other.write(item("old"), policy: .addOnly)
            let (old, new) = (try item("old").key, try item("new").key)
            count.withLock { $0 = 0 }
            let backend = store.backend(
                SystemCalls(fault: { _ in
                    guard isWalking.withLock({ $0 }) else { return nil }
                    if count.withLock({ count in
                        count += 1
                        return count == number
                    }) {
                        do {
                            try other.move(old, to: new, policy: .addOnly, now: Date())
                            moves.withLock { $0 += 1 }
                        } catch {}
                    }
                    return nil
                })
            )
            _ = try backend.prefixes()
            isWalking.withLock { $0 = true }
            defer { isWalking.withLock { $0 = false } }
            try check(walk, backend, "call \(number)")
            if count.withLock({ $0 }) < number { break }
        }
        #expect(moves.withLock { $0 } > 3)
    }

    private func check(_ walk: Walk, _ backend: SealedBackend, _ comment: Comment) throws {
        switch walk {
        case .list: #expect(try !backend.attributes(prefix: "a", now: nil).isEmpty, comment)
        case .prefixes: #expect(try backend.prefixes() == ["a"], comment)
        case .removeAll:
            try backend.removeAll(prefix: "a")
            #expect(try backend.attributes(prefix: "a", now: nil).isEmpty, comment)
        }
    }
}
