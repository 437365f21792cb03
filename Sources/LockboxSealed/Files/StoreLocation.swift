import LockboxCore

/// The location of the user's store if the app does not specify one.
enum StoreLocation {
    /// `LOCKBOX_DIRECTORY`; otherwise `lockbox` in `STATE_DIRECTORY` (systemd), in `XDG_DATA_HOME`, or in
    /// `~/.local/share`. On Apple's systems, `~/Library/Application Support` replaces the last two.
    static func standard(_ environment: (String) -> String? = { Environment[$0] }) -> String {
        if let directory = environment("LOCKBOX_DIRECTORY") { return directory }
        // systemd separates multiple folders with colons.
        if let state = environment("STATE_DIRECTORY")?.split(separator: ":").first {
            return "\(state)/lockbox"
        }
        return "\(userData(environment))/lockbox"
    }
}
