import ArgumentParser
import Lockbox

/// The options that all commands share.
struct StoreOptions: ParsableArguments {
    @Option(
        help: "The key prefix. (default: $LOCKBOX_KEY_PREFIX, otherwise lockbox; export: all prefixes)",
        completion: .custom(Keys.prefixes)
    )
    var prefix: String?

    @Option(
        help: "The store's folder. (default: $LOCKBOX_DIRECTORY, otherwise this user's store)",
        completion: .directory
    )
    var directory: String?

    @Option(
        name: .customLong("store"),
        help: ArgumentHelp(
            """
            The store in a cluster, such as etcd://a.example:2379,b.example:2379/secrets/shop, or its folder, which \
            begins with /, ~/ or ./. Without TLS, the address begins with etcd+plaintext://. (default: $LOCKBOX_STORE)
            """,
            valueName: "address"
        )
    )
    var storeAddress: String?

    @Option(
        help: """
            Read the passcode from this file, if it is needed. (default: $LOCKBOX_PASSCODE_FILE, the credential \
            lockbox-passcode, or $LOCKBOX_PASSCODE)
            """,
        completion: .file()
    )
    var passcodeFile: String?

    @Option(help: "Read the passcode from this open file descriptor, if it is needed.")
    var passcodeFd: Int32?

    @Option(
        help: ArgumentHelp(
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
        help: ArgumentHelp(
            "Read the device key from this systemd credential. Can be repeated; files are tried first.",
            valueName: "name"
        )
    )
    var deviceKeyCredential: [String] = []

    @Flag(help: "Refuse a store that has no passcode.")
    var requirePasscode = false

    @Flag(help: "Refuse a store without a passcode or any other slot.")
    var requireSlot = false

    @Option(help: "Refuse items whose class is less protected than this.")
    var minimumClass: MinimumClass?

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
            requirements: requirements,
            quiet: quiet,
            verbose: verbose
        )
    }

    private var requirements: StoreRequirements {
        StoreRequirements(
            protection: requirePasscode ? .passcode : requireSlot ? .anySlot : .none,
            minimumAccessibility: minimumClass?.itemClass.accessibility,
            identity: identity?.lowercased()
        )
    }

    func store() throws -> Store { try choice.store() }
}
