import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// A store does not use up the descriptors of its process.
@Suite struct DescriptorTests {
    private let store: TestStore
    private let prefixes = (0..<100).map { "com.example.\($0)" }

    init() throws {
        store = try TestStore()
        for prefix in prefixes { try store.lockbox(prefix).archiveObject(prefix, forKey: "key") }
    }

    @Test func ofManyPrefixesOnlySomeAreKeptOpen() throws {
        let backend = store.backend()
        for _ in 0..<2 {
            for prefix in prefixes {
                let lockbox = try backend.lockbox(prefix)
                #expect(try lockbox.unarchiveObject(forKey: "key") == prefix)
                #expect(try lockbox.allKeys() == ["key"])
            }
        }
        #expect(store.openDescriptors() <= 64)
    }

    @Test func verifyOpensOneFolderAfterTheOther() throws {
        let most = Protected(0)
        let backend = store.backend(
            SystemCalls { [store] call in
                if call == .open { most.withLock { $0 = max($0, store.openDescriptors()) } }
                return nil
            }
        )
        let report = try backend.verify()
        #expect(report.findings == [] && report.intactCount == prefixes.count)
        #expect((1...StoreFolders.maximumOpen + 4).contains(most.withLock { $0 }))
    }

    /// All descriptors of the process are open already: some are given back, and the call is made again.
    @Test(arguments: [EMFILE, ENFILE])
    func whatIsKeptOpenIsGivenBackWhenDescriptorsRunShort(errno: CInt) throws {
        let refused = Protected(0)
        let backend = store.backend(
            SystemCalls { [store] call in
                guard call == .open, store.openDescriptors() >= 8 else { return nil }
                refused.withLock { $0 += 1 }
                return .failure(errno)
            }
        )
        for prefix in prefixes.prefix(20) {
            let lockbox = try backend.lockbox(prefix)
            #expect(try lockbox.unarchiveObject(forKey: "key") == prefix)
            #expect(try lockbox.unarchiveObject(String.self, forKey: "absent") == nil)
            try lockbox.archiveObject("new", forKey: "key")
            #expect(try lockbox.allKeys() == ["key"])
            try lockbox.removeObject(forKey: "key")
        }
        #expect(refused.withLock { $0 } > 3)
    }
}
