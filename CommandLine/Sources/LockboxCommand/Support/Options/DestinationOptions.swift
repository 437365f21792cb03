import ArgumentParser
import Lockbox

/// Where `copy` copies to, if not to the same store.
struct DestinationOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            """
            The store to copy to: an address such as etcd://a.example:2379/secrets/shop, or a folder. The cluster \
            options are for both stores.
            """,
            valueName: "address"
        )
    )
    var toStore: String?

    @Option(
        help: ArgumentHelp(
            "Read the other store's device key from this file, if it is not kept in that store. Can be repeated.",
            valueName: "file"
        ),
        completion: .file()
    )
    var toDeviceKeyFile: [String] = []

    @Option(help: "Read the other store's passcode from this file, if it is needed.", completion: .file())
    var toPasscodeFile: String?

    @Flag(help: "With --to-store: copy the items of all prefixes.")
    var all = false

    var isEmpty: Bool { toStore == nil && toDeviceKeyFile.isEmpty && toPasscodeFile == nil && !all }

    /// Returns nil if the copies stay in the same store.
    func store(of source: Store, prefix: String?) throws -> Store? {
        guard let toStore else { return nil }
        let choice = StoreChoice(
            prefix: prefix ?? source.prefix,
            store: toStore,
            access: source.choice.access,
            passcodeFile: toPasscodeFile,
            deviceKeyFiles: toDeviceKeyFile,
            inheritsDeviceKey: false,
            quiet: source.choice.quiet,
            verbose: source.choice.verbose
        )
        return try choice.store()
    }
}
