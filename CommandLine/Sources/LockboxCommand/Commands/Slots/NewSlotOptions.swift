import ArgumentParser
import Lockbox

/// What the commands share that add a slot.
struct NewSlotOptions: ParsableArguments {
    @Option(help: "A name, shown by `lockbox slots`.")
    var label: String

    @Flag(help: "The slot opens all classes.")
    var allClasses = false

    @OptionGroup var resealing: ResealingOptions
}
