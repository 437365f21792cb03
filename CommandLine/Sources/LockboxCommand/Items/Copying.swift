import ArgumentParser
import Lockbox
@_spi(Extensions) import LockboxCore

struct MoveCommand: Command {
    static let help: CommandHelp = """
        move, mv, rename: Move an item to another key.

        Value, attributes and dates stay as they are. The new item is safely stored before the old one is \
        removed. Without --replace, the command fails if the new key already has an item, unless it is identical.

        Example: lockbox move token web-shop/token
        """

    @Argument(help: "The item's key.", completion: .custom(Keys.keys))
    var key: String

    @Argument(help: "The new key.")
    var newKey: String

    @OptionGroup var new: NewItemOptions

    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    func run() throws {
        let store = try options.store()
        let key = try ItemKey(prefix: store.prefix, key: key)
        let newKey = try ItemKey(prefix: new.prefix(orElse: store), key: newKey)
        try Failure.advising("Use --replace to overwrite it.") {
            try store.unlocking {
                // An expired item is moved too, and stays expired.
                let isExpired =
                    try store.backend.attributes(for: key, now: nil)?.isExpired(at: Date()) ?? false
                let now = isExpired ? Date.distantPast : Date()
                try store.backend.move(key, to: newKey, policy: new.policy, now: now)
            }
        }
    }
}

/// The new item of `move` and `copy`.
struct NewItemOptions: ParsableArguments {
    @Option(help: "The new key's prefix. (default: the old one's)", completion: .custom(Keys.prefixes))
    var toPrefix: String?

    @Flag(help: "Replace the item that the new key already has.")
    var replace = false

    var policy: WritePolicy { replace ? .replace : .addOnly }

    func prefix(orElse store: Store) throws -> String {
        try toPrefix.map(ItemKey.checkIsWrittenOut)
        return toPrefix ?? store.prefix
    }
}

struct CopyCommand: Command {
    static let help: CommandHelp = """
        copy, cp: Copy an item to another key, or items to another store.

        The copy has the item's value, attributes and dates. Without --replace, an existing item is kept; \
        copying a single item then fails with status 4.

        With --to-store, the copies go into another store, such as one in a cluster. Without a key, all items \
        of the prefix are copied, or with --all those of all prefixes. Other programs can use both stores \
        meanwhile: each copy is as its item was when it was copied, and an item that is removed meanwhile may \
        be copied all the same. If it is interrupted, run it again.

        With --from secret-service, all that programs have stored in the desktop's keyring is copied, under the prefix \
        org.freedesktop.secrets, where the same programs find it through `lockbox secret-service`.

        Example: lockbox copy token token --to-prefix com.example.app
        """

    @Argument(help: "The item's key.", completion: .custom(Keys.keys))
    var key: String?

    @Argument(help: "The new key. With --to-store, the same key by default.")
    var newKey: String?

    @OptionGroup var new: NewItemOptions

    @Option(
        help: .init(
            """
            The store to copy to: an address such as etcd://a.example:2379/secrets/shop, or a folder. The cluster \
            options are for both stores.
            """,
            valueName: "address"
        )
    )
    var toStore: String?

    @Option(
        help: .init(
            "Read the other store's device key from this file, if it is not kept in that store. Can be repeated.",
            valueName: "file"
        ),
        completion: .file()
    )
    var toDeviceKeyFile: [String] = []

    @Option(file: "Read the other store's passcode from this file, if it is needed.")
    var toPasscodeFile: String?

    @Option(help: "Copy from the desktop's keyring into the store: `secret-service`.")
    var from: CopySource?

    @Flag(help: "With --to-store: copy the items of all prefixes.")
    var all = false

    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    func validate() throws {
        if toStore == nil, all || !toDeviceKeyFile.isEmpty || toPasscodeFile != nil {
            throw ValidationError("--all and the options for the other store need --to-store.")
        }
        if from != nil {
            guard key == nil, toStore == nil, new.toPrefix == nil, options.prefix == nil else {
                throw ValidationError(
                    "--from copies all items, under a prefix of their own. Leave out keys, prefixes and --to-store."
                )
            }
            return
        }
        if toStore == nil, newKey == nil {
            throw ValidationError("Give the item's key and the new one, or --to-store.")
        }
        if all, key != nil || options.prefix != nil {
            throw ValidationError("--all copies the items of all prefixes; leave out the key and --prefix.")
        }
        if key == nil, new.toPrefix != nil {
            throw ValidationError("--to-prefix is for one item. Give its key.")
        }
    }

    func run() throws {
        if let from { return try copy(from: from) }
        if let toStore { _ = try StoreAddress(toStore) }
        let store = try options.store()
        try Failure.advising("Use --replace to overwrite it.") {
            if let toStore {
                try copy(store, to: other(toStore, than: store))
            } else {
                try copy(within: store)
            }
        }
    }

    private func copy(within store: Store) throws {
        let (key, newKey) = (key ?? "", newKey ?? "")
        try store.unlocking {
            try store.lockbox.copyObject(
                forKey: key,
                toKey: newKey,
                toPrefix: new.prefix(orElse: store),
                policy: new.policy
            )
        }
    }

    private func other(_ address: String, than store: Store) throws -> Store {
        let choice = StoreChoice(
            prefix: try new.prefix(orElse: store),
            store: address,
            access: store.choice.access,
            passcodeFile: toPasscodeFile,
            deviceKeyFiles: toDeviceKeyFile,
            inheritsDeviceKey: false,
            quiet: options.quiet,
            verbose: options.verbose
        )
        return try choice.store(for: .making)
    }

    private func copy(_ store: Store, to other: Store) throws {
        try store.openIfLocked()
        try other.openIfLocked()
        guard let key else { return try copyAll(store, other) }
        let place = try ItemKey(prefix: store.prefix, key: key)
        let newPlace = try ItemKey(prefix: other.prefix, key: newKey ?? key)
        func copy() throws {
            try store.backend.copy(place, to: newPlace, in: other.backend, policy: new.policy, now: Date())
        }
        do { try copy() } catch LockboxError.itemNotFound { throw store.missing(key) } catch LockboxError
            .corrupt where new.replace, LockboxError.authenticationFailed where new.replace
        {
            // Nothing stays of a damaged item.
            guard let item = try store.backend.item(for: place, now: Date()) else { throw store.missing(key) }
            try other.backend.write(item.renamed(to: newPlace), policy: .replace)
            try copy()
        }
    }

    private func copyAll(_ store: Store, _ other: Store) throws {
        let prefix = all ? nil : store.prefix
        let report = try store.showingProgress(of: "copy") {
            try store.backend.copyItems(to: other.backend, prefix: prefix, existing: existing, progress: $0)
        }
        try tell(report, store, orElse: store.empty)
    }

    private func copy(from source: CopySource) throws {
        let store = try options.store(for: .making)
        try store.openIfLocked()
        let report = try source.copyItems(to: store, existing: existing)
        try tell(report, store, orElse: Failure(.noSuchItem, "The keyring has no items."))
    }

    private var existing: ExistingItemPolicy { new.replace ? .replace : .keep }

    private func tell(_ report: TransferReport, _ store: Store, orElse empty: Failure) throws {
        if report.transferredKeys.isEmpty, report.keptKeys.isEmpty, report.findings.isEmpty { throw empty }
        for key in report.keptKeys { try store.report("not copied, a different item exists: \(key.text)") }
        try store.report("items copied: \(report.transferredKeys.count)")
        let failed = Unreadable(report.findings)
        try failed.fail("Items that could not be copied", advice: "The others were copied.")
    }
}
