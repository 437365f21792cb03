import LockboxCore
import LockboxSodium

/// A keybag that is to replace the current one.
struct KeybagRewrite {
    var contents: KeybagContents
    /// What opens the new keybag for this process, if not what opened the one before.
    var slotKeys: SlotKeys?
    var device = DeviceKeyChange.renew

    /// - Throws: ``LockboxError/interactionNotAllowed(_:)`` if the store is locked.
    init(after opened: OpenedKeybag) throws {
        guard let contents = try KeybagContents(after: opened) else {
            throw LockboxError.interactionNotAllowed(.whenUnlocked)
        }
        self.contents = contents
    }

    /// The keybags to write, one after the other.
    func stages(after old: Keybag) -> [KeybagContents] {
        if contents.epoch == old.epoch { return [contents] }
        var (first, second) = (contents, contents)
        first.epoch = old.epoch
        second.generation += 1
        return [first, second]
    }
}

extension KeybagContents {
    /// The next version of a keybag that is completely open, or nil if it is not.
    init?(after opened: OpenedKeybag) throws {
        try self.init(after: opened.keybag, unlockKeys: opened.unlockKeys)
    }
}
