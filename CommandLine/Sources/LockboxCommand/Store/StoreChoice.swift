import ArgumentParser
import Lockbox
@_spi(Extensions) import LockboxCore

/// The options that all commands share.
struct StoreOptions: ParsableArguments {
    @Option(
        name: .customLong("prefix"),
        help: """
            The key prefix. `list` takes several. (default: $LOCKBOX_KEY_PREFIX, otherwise lockbox; export: all \
            prefixes)
            """,
        completion: .custom(Keys.prefixes)
    )
    var prefixes: [String] = []

    var prefix: String? { prefixes.first }

    @Option(
        help: """
            The store's folder. A relative path begins with ./. (default: $LOCKBOX_DIRECTORY, otherwise this user's store)
            """,
        completion: .directory
    )
    var directory: String?

    @Option(
        name: .customLong("store"),
        help: .init(
            """
            The store in a cluster, such as etcd://a.example:2379,b.example:2379/secrets/shop, or its folder, which \
            begins with /, ~/ or ./. Without TLS, the address begins with etcd+plaintext://. (default: $LOCKBOX_STORE)
            """,
            valueName: "address"
        )
    )
    var storeAddress: String?

    @Option(
        file: """
            Read the passcode from this file. (default: $LOCKBOX_PASSCODE_FILE, the credential lockbox-passcode, or \
            $LOCKBOX_PASSCODE)
            """
    )
    var passcodeFile: String?

    @Option(help: "Read the passcode from this open file descriptor.")
    var passcodeFd: Int32?

    @Option(
        help: .init(
            """
            Read the device key from this file, if it is not kept in the store. Can be repeated: the files are \
            tried in this order. (default: $LOCKBOX_DEVICE_KEY_FILE)
            """,
            valueName: "file"
        ),
        completion: .file()
    )
    var deviceKeyFile: [String] = []

    @Option(
        help: .init(
            "Read the device key from this systemd credential. Can be repeated; files are tried first.",
            valueName: "name"
        )
    )
    var deviceKeyCredential: [String] = []

    @Option(
        help: .init(
            "Once the passcode is typed, keep the store unlocked for all programs of this user this long, such as 1m.",
            valueName: "time"
        )
    )
    var unlockFor: String?

    @Flag(help: "Refuse a store that has no passcode.")
    var requirePasscode = false

    @Flag(help: "Refuse a store without a passcode or any other slot.")
    var requireSlot = false

    @Option(help: "Refuse items whose class is less protected than this.")
    var minimumClass: ItemClass?

    @Option(help: "Refuse a store with another identity. `lockbox status` prints it.")
    var identity: String?

    @OptionGroup var cluster: ClusterOptions

    @Flag(name: .shortAndLong, help: "Print only the requested output, and errors.")
    var quiet = false

    @Flag(name: .shortAndLong, help: "Print on standard error which store is used, and what is done.")
    var verbose = false

    func validate() throws {
        if passcodeFile != nil, passcodeFd != nil {
            throw ValidationError("Give --passcode-file or --passcode-fd, not both.")
        }
        if let unlockFor, Lifetime.seconds(unlockFor) == nil {
            throw ValidationError("--unlock-for takes a time such as 1m or 8h.")
        }
        if let identity, identity.wholeMatch(of: /[0-9a-fA-F]{32}/) == nil {
            throw ValidationError("--identity takes 32 hexadecimal digits, as `lockbox status` prints them.")
        }
    }

    var choice: StoreChoice {
        StoreChoice(
            prefix: prefix,
            directory: directory,
            store: storeAddress,
            access: cluster.access,
            passcodeFile: passcodeFile,
            passcodeFd: passcodeFd,
            deviceKeyFiles: deviceKeyFile,
            deviceKeyCredentials: deviceKeyCredential,
            requirements: StoreRequirements(
                protection: requirePasscode ? .passcode : requireSlot ? .anySlot : .none,
                minimumAccessibility: minimumClass?.accessibility,
                identity: identity?.lowercased()
            ),
            unlockFor: unlockFor.flatMap(Lifetime.seconds).map { .seconds($0) },
            quiet: quiet,
            verbose: verbose
        )
    }

    func store(for use: StoreUse = .existing) throws -> Store { try choice.store(for: use) }

    /// A store that nothing has to unlock. A secret that was given is checked all the same.
    func openStore() throws -> Store {
        let store = try store()
        try store.unlockIfGiven()
        return store
    }
}

/// The need of a command: a store that exists, one to make, or any.
enum StoreUse {
    /// There is a store, which has a slot for the secret that was given.
    case existing
    /// The same, or there is no store, and no secret was given.
    case making
    /// Nothing yet.
    case any
}

extension Option where Value == String? {
    /// An option that names a file.
    init(name: NameSpecification = .long, file help: ArgumentHelp) {
        self.init(name: name, help: help, completion: .file())
    }
}

/// The store and prefix that the options choose, and what opens the store.
struct StoreChoice {
    var prefix: String?
    var directory: String?
    /// The address of a cluster, or a folder. It stands in for `directory`.
    var store: String?
    var access: [ClusterSetting: String] = [:]
    var passcodeFile: String?
    var passcodeFd: Int32?
    var deviceKeyFiles: [String] = []
    var deviceKeyCredentials: [String] = []
    /// Whether the environment may name the device key. It is that of one store.
    var inheritsDeviceKey = true
    var requirements = StoreRequirements()
    /// How long an unlock in passing lasts for all programs of this user.
    var unlockFor: Duration?
    /// The secret that unlocks the store instead of its passcode.
    var otherSecret: UnlockSecret?
    var quiet = false
    var verbose = false

    /// - Parameters:
    ///   - fallback: The default prefix of a credential helper.
    ///   - asks: Whether the user may be asked for the passcode at a terminal.
    func store(prefix fallback: String? = nil, asks: Bool = true, for use: StoreUse = .existing) throws
        -> Store
    {
        // Probably unset variables. The store would be created in the current folder.
        if directory == "" { throw Failure(.usage, "--directory is empty. Give a folder, or leave it out.") }
        if (deviceKeyFiles + deviceKeyCredentials).contains("") {
            throw Failure(.usage, "The name of a device key is empty. Give a file, or leave the option out.")
        }
        if directory != nil, store != nil { throw Failure(.usage, "Give --directory or --store, not both.") }
        // The programs that this process starts do not get it.
        if let passcodeFd, passcodeFd > STDERR_FILENO { _ = fcntl(passcodeFd, F_SETFD, FD_CLOEXEC) }
        let prefix = try prefix ?? fallback ?? Environment["LOCKBOX_KEY_PREFIX"] ?? "lockbox"
        if use == .making { try ItemKey.checkIsWrittenOut(prefix) }
        let store = try Store(self, prefix: prefix, asks: asks)
        if use != .any { try store.check(for: use) }
        return store
    }

    /// The store's address, from the options or the environment.
    var storeAddress: StoreAddress {
        get throws {
            if let directory { return .folder(directory) }
            return try (store ?? Environment["LOCKBOX_STORE"]).map { try StoreAddress($0) } ?? .folder(nil)
        }
    }

    /// Whether an option or a variable names it, perhaps with a slip.
    var isNamed: Bool {
        directory != nil || store != nil
            || ["LOCKBOX_DIRECTORY", "LOCKBOX_STORE"].contains(where: Environment.isSet)
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

/// The address of a store: a folder, or a cluster.
enum StoreAddress {
    /// A folder, or nil for this user's store.
    case folder(String?)
    case cluster(ClusterAddress)

    /// Reads what --store and LOCKBOX_STORE name: the address of a cluster, or a folder as an absolute path, or one that begins
    /// with `~/`, `./` or `../`.
    init(_ text: String) throws {
        if let address = try ClusterAddress(text) {
            self = .cluster(address)
        } else {
            // Probably an unset variable. The store would be created in the current folder.
            if text.isEmpty {
                throw Failure(.usage, "The address of a store is empty. Give one, or leave the option out.")
            }
            let first = String(text.prefix { $0 != "/" })
            guard ["", ".", "..", "~"].contains(first) else {
                throw Failure(
                    .usage,
                    "\(text.onOneLine) is not a store's address. A cluster's address begins with etcd:// or "
                        + "etcd+plaintext://, the path of a folder with /, ~/ or ./."
                )
            }
            var status = stat()
            if stat(text, &status) == 0, status.st_mode & S_IFMT != S_IFDIR {
                throw Failure(
                    .usage,
                    "\(text.onOneLine) is a file, and a store is a folder. If LOCKBOX_STORE is another program's variable, "
                        + "unset it, or name the store with --directory."
                )
            }
            self = .folder(text)
        }
    }
}
