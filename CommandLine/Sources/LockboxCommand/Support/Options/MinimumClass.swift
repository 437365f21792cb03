import ArgumentParser
import Lockbox

/// The class that items must have at least.
struct MinimumClass: ExpressibleByArgument {
    let itemClass: ItemClass

    init?(argument: String) {
        guard let itemClass = ItemClass(rawValue: argument) else { return nil }
        self.itemClass = itemClass
    }

    /// Those that make a difference: every item is at least as protected as `always`, and `ThisDeviceOnly` does not count.
    static var allValueStrings: [String] {
        ["afterFirstUnlock", "whenUnlocked", "whenPasscodeSetThisDeviceOnly"]
    }
}
