import ArgumentParser
import Lockbox

/// The strength of a passcode, given by its name.
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
            "sensitive": "a few seconds, 1 GiB",
        ]
    }
}
