import ArgumentParser
import Lockbox

/// What the changes share that make new keys and reseal every item.
struct ResealingOptions: ParsableArguments {
    @Flag(help: "Do not reseal the items now, but with the next `lockbox rotate`.")
    var later = false
}
