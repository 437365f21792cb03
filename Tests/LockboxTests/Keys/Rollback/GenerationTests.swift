import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// Somebody who has the device key can write any generation into a keybag.
@Suite struct GenerationTests {
    /// A change of the slots writes two keybags.
    @Test(arguments: [UInt64.max - 2, UInt64.max - 1, UInt64.max])
    func aChangeNeedsTwoMore(generation: UInt64) throws {
        let store = try TestStore()
        try store.lockbox().archiveObject("value", forKey: "key")
        var contents = try #require(try KeybagContents(after: store.backend().keys.current()))
        contents.generation = generation
        try overwrite(store.keybag, contents.encoded(deviceKey: store.deviceKeys()[0]))
        let before = try store.snapshot()

        let isPossible = generation == UInt64.max - 2
        let error = lockboxError { try store.backend().setPasscode(.value("1234"), strength: .interactive) }
        #expect(error?.code == (isPossible ? nil : .corrupt))
        #expect(try (store.snapshot() == before) == !isPossible)
    }
}
