import LockboxCore
import LockboxPlatform

/// Where this user's store is, if the app does not say.
enum StoreLocation {
    /// `LOCKBOX_DIRECTORY`; else `lockbox` in `STATE_DIRECTORY` (systemd), in `XDG_DATA_HOME`, or in
    /// `~/.local/share`. On Apple's systems `~/Library/Application Support` takes the place of the last two.
    static func standard(_ environment: (String) -> String? = { Environment[$0] }) -> String {
        if let directory = environment("LOCKBOX_DIRECTORY") { return directory }
        // systemd separates several by colons.
        if let state = environment("STATE_DIRECTORY")?.split(separator: ":").first {
            return "\(state)/lockbox"
        }
        return "\(userData(environment))/lockbox"
    }

    static func home(_ environment: (String) -> String?) -> String {
        environment("HOME") ?? FileManager.default.homeDirectoryForCurrentUser.path
    }
}
