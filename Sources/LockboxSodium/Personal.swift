import Clibsodium
import LockboxCore
import LockboxPlatform

/// A personalization string of BLAKE2b: at most 16 bytes of ASCII.
package struct Personal {
    package let bytes: SIMD16<UInt8>

    package init(_ text: StaticString) {
        precondition(text.utf8CodeUnitCount <= 16)
        var bytes = SIMD16<UInt8>()
        for index in 0..<text.utf8CodeUnitCount { bytes[index] = text.utf8Start[index] }
        self.bytes = bytes
    }

    package static let scope = Personal("lockbox.scope.v1")
    package static let name = Personal("lockbox.name.v1")
    package static let value = Personal("lockbox.value.v1")
    package static let metadata = Personal("lockbox.meta.v1")
    package static let classMAC = Personal("lockbox.class.v1")
    package static let unlockMAC = Personal("lockbox.chose.v1")
    package static let unlocked = Personal("lockbox.whole.v1")
    package static let afterFirstUnlock = Personal("lockbox.first.v1")
    package static let key = Personal("lockbox.key.v1")
    package static let recovery = Personal("lockbox.recov.v1")
    package static let slot = Personal("lockbox.slot.v1")
    package static let level = Personal("lockbox.level.v1")
    package static let keyPair = Personal("lockbox.pair.v1")
    package static let authentication = Personal("lockbox.auth.v1")
    package static let grant = Personal("lockbox.grant.v1")
    package static let seen = Personal("lockbox.seen.v1")
    package static let keybag = Personal("lockbox.bag.v1")
    package static let backup = Personal("lockbox.export.1")
    package static let sharedUnlock = Personal("lockbox.unlock.1")
    package static let deviceCheck = Personal("lockbox.dev.v1")
}
