public import ArgumentParser
public import Lockbox
public import LockboxImport

// The library's types as arguments, given by their names.

/// An accessibility class, whose raw value is the Keychain's.
enum ItemClass: String, CaseIterable, ExpressibleByArgument {
    case whenUnlocked, afterFirstUnlock, always
    case whenUnlockedThisDeviceOnly, afterFirstUnlockThisDeviceOnly, alwaysThisDeviceOnly
    case whenPasscodeSetThisDeviceOnly

    var accessibility: Accessibility { Accessibility.allCases.first { "\($0)" == rawValue }! }
}

extension ExistingItemPolicy: @retroactive ExpressibleByArgument {
    /// What `--help` says of each.
    public static var allValueDescriptions: [String: String] {
        [
            "keep": "keep the store's item unless it is damaged", "replace": "take the backup's item",
            "fail": "import nothing at all",
        ]
    }
}

extension EnvironmentDialect: @retroactive ExpressibleByArgument {
    /// What `--help` says of each.
    public static var allValueDescriptions: [String: String] {
        [
            "common": "what dotenv and Docker Compose read alike",
            "docker": "all after = is the value, as `docker run --env-file` reads it",
            "dotenv": "# begins a comment outside quotes; $ and backslashes are text",
            "shell": "assignments of sh; what it would expand or run is refused",
        ]
    }
}

extension PasscodeStrength: @retroactive ExpressibleByArgument {
    /// What `--help` says of each.
    public static var allValueDescriptions: [String: String] {
        [
            "interactive": "well under a tenth of a second, 64 MiB",
            "moderate": "about half a second, 256 MiB",
            "sensitive": "a few seconds, 1 GiB",
        ]
    }
}
