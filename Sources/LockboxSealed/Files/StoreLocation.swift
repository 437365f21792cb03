import LockboxCore
import LockboxFiles

/// The folder of a store.
struct StoreLocation: Sendable {
    /// An absolute path. If no store can be there, what was given.
    let directory: String
    /// Why no store can be there.
    let refusal: LockboxError?
    /// Whether the environment says only whose data it is among.
    let isInHome: Bool

    private init(
        _ name: String,
        isInHome: Bool = false,
        _ path: () throws(LockboxError) -> String
    ) {
        self.isInHome = isInHome
        do throws(LockboxError) { (directory, refusal) = (try path(), nil) } catch {
            (directory, refusal) = (name, error)
        }
    }

    /// - Parameter directory: An absolute path, one that begins with `~/`, or one relative to the current folder.
    init(
        _ directory: String,
        _ environment: HomeFolder.Variables = { (name) throws(LockboxError) in try Environment[name] }
    ) {
        let tilde = UInt8(ascii: "~")
        let first = directory.utf8.prefix { $0 != UInt8(ascii: "/") }
        self.init(directory, isInHome: first.elementsEqual([tilde])) { () throws(LockboxError) in
            if first.elementsEqual([tilde]) {
                return try Path.absolute(HomeFolder.path(environment) + directory.dropFirst())
            }
            let reason: String? =
                if directory.isEmpty {
                    "it is empty, which would be the current folder; give a path"
                } else if first.first == tilde {
                    "it is the home folder of another user to a shell; give an absolute path"
                } else if first.contains(UInt8(ascii: ":")) {
                    "it looks like an address; give a path, which begins with ./ if it is relative"
                } else {
                    nil
                }
            if let reason { throw LockboxError.invalidLocation(location: directory, reason: reason) }
            return try Path.absolute(directory)
        }
    }

    /// The location of the user's store if the app does not specify one: `LOCKBOX_DIRECTORY`; otherwise `lockbox` in
    /// `STATE_DIRECTORY` (systemd), in `XDG_DATA_HOME`, or in `~/.local/share`. On Apple's systems, `~/Library/Application
    /// Support` replaces the last two.
    static func standard(
        _ environment: HomeFolder.Variables = { (name) throws(LockboxError) in try Environment[name] }
    ) -> StoreLocation {
        do throws(LockboxError) {
            if let directory = try environment("LOCKBOX_DIRECTORY") {
                return StoreLocation(directory, environment)
            }
            // systemd separates multiple folders with colons.
            if let state = try environment("STATE_DIRECTORY")?.split(separator: ":").first {
                return StoreLocation("\(state)") { () throws(LockboxError) in
                    try Path.absolute("\(HomeFolder.checked(String(state), "STATE_DIRECTORY"))/lockbox")
                }
            }
            return StoreLocation("~", isInHome: true) { () throws(LockboxError) in
                try Path.absolute("\(HomeFolder.userData(environment))/lockbox")
            }
        } catch {
            return StoreLocation("~") { () throws(LockboxError) in throw error }
        }
    }
}
