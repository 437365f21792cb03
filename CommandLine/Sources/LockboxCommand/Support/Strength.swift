import ArgumentParser
import Lockbox

/// The cost of a guess, by its name.
enum Strength: String, CaseIterable, ExpressibleByArgument {
    case interactive, moderate, sensitive

    var strength: PasscodeStrength {
        switch self {
        case .interactive: .interactive
        case .moderate: .moderate
        case .sensitive: .sensitive
        }
    }

    static var allValueDescriptions: [String: String] {
        [
            "interactive": "well under a tenth of a second, 64 MiB",
            "moderate": "about half a second, 256 MiB",
            "sensitive": "some seconds, 1 GiB",
        ]
    }
}
