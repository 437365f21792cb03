import ArgumentParser
import Lockbox

/// The keys of `move`.
struct TwoKeys: ParsableArguments {
    @Argument(help: "The item's key.", completion: .custom(Keys.keys))
    var key: String

    @Argument(help: "The new key.")
    var newKey: String

    @Option(help: "The new key's prefix. (default: the old one's)", completion: .custom(Keys.prefixes))
    var toPrefix: String?

    @Flag(help: "Replace the item that the new key already has.")
    var replace = false

    var policy: WritePolicy { replace ? .replace : .addOnly }
}
