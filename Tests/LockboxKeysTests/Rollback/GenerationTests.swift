import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// Somebody who has the device key can write any generation into a keybag.
@Suite struct GenerationTests {
    /// In a store without slots nothing authenticates it. The next generations would not be remembered, or there would be none.
    @Test(arguments: [(1 << 47) - 2, (1 << 47) - 1, UInt64.max - 2, .max])
    func noFirstSlotFollowsOneThatNobodyReaches(generation: UInt64) throws {
        let store = try TestStore()
        try store.lockbox().archiveObject("value", forKey: "key")
        var contents = try #require(try KeybagContents(after: store.backend().keyStore.current()))
        contents.generation = generation
        try overwriteBoth(store.keybag, contents.encoded(deviceKey: store.deviceKeys()[0]))
        let before = try store.snapshot()

        let isPossible = generation < (1 << 47) - 1
        let error = lockboxError { try store.backend().setPasscode(.value("1234"), strength: .interactive) }
        #expect(error?.code == (isPossible ? nil : .corrupt))
        #expect(try (store.snapshot() == before) == !isPossible)
        #expect(try isPossible || store.lockbox().unarchiveObject(forKey: "key") == "value")
    }
}
