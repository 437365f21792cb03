import Lockbox

/// The store and prefix that the options choose, and what opens the store.
struct StoreChoice {
    var prefix: String?
    var directory: String?
    /// The address of a cluster, or a folder. It stands in for `directory`.
    var store: String?
    var access = ClusterAccess()
    var passcodeFile: String?
    var passcodeFd: Int32?
    var deviceKeyFiles: [String] = []
    var deviceKeyCredentials: [String] = []
    /// Whether the environment may name the device key. It is that of one store.
    var inheritsDeviceKey = true
    var requirements = StoreRequirements()
    /// What unlocks the store instead of its passcode.
    var otherSecret: OtherSecret?
    var quiet = false
    var verbose = false

    /// - Parameters:
    ///   - fallback: The default prefix of a credential helper.
    ///   - asks: Whether the user may be asked for the passcode at a terminal.
    ///   - checksPasscode: Whether a passcode, or another secret, that was given is an error if the store has no such slot.
    func store(prefix fallback: String? = nil, asks: Bool = true, checksPasscode: Bool = true) throws -> Store
    {
        // Probably unset variables. The store would be created in the current folder.
        if directory == "" { throw Failure(.usage, "--directory is empty. Give a folder, or leave it out.") }
        if (deviceKeyFiles + deviceKeyCredentials).contains("") {
            throw Failure(.usage, "The name of a device key is empty. Give a file, or leave the option out.")
        }
        if directory != nil, store != nil { throw Failure(.usage, "Give --directory or --store, not both.") }
        let prefix = try prefix ?? fallback ?? Environment["LOCKBOX_KEY_PREFIX"] ?? "lockbox"
        let store = try Store(self, prefix: prefix, asks: asks)
        if checksPasscode { try store.checkGivenSecret() }
        return store
    }

    /// The store's address, from the options or the environment.
    var storeAddress: StoreAddress {
        get throws {
            if let directory { return .folder(directory) }
            return try (store ?? Environment["LOCKBOX_STORE"]).map { try StoreAddress($0) } ?? .folder(nil)
        }
    }

    /// The sources in the order in which they are tried.
    var deviceKey: DeviceKeySource {
        get throws {
            var sources =
                deviceKeyFiles.map { DeviceKeySource.file($0) }
                + deviceKeyCredentials.map { DeviceKeySource.credential($0) }
            if sources.isEmpty, inheritsDeviceKey, let file = try Environment["LOCKBOX_DEVICE_KEY_FILE"] {
                sources = [.file(file)]
            }
            return sources.isEmpty ? .stored : .anyOf(sources)
        }
    }
}
