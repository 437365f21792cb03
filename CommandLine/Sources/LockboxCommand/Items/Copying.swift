import ArgumentParser
import Lockbox

struct MoveCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "move",
        abstract: "Move an item to another key.",
        discussion: """
            Value, attributes and dates stay as they are. The new item is safely stored before the old one is \
            removed. Without --replace, the command fails if the new key already has an item, unless it is identical.

            Example: lockbox move token web-shop/token
            """,
        aliases: ["mv", "rename"]
    )

    @OptionGroup var keys: TwoKeys

    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    func run() throws {
        let store = try options.store()
        try Failure.advising("Use --replace to overwrite it.") {
            try store.unlocking {
                let key = try ItemKey(prefix: store.prefix, key: keys.key)
                let newKey = try ItemKey(prefix: keys.toPrefix ?? store.prefix, key: keys.newKey)
                // An expired item is moved too, and stays expired.
                let isExpired =
                    try store.backend.attributes(for: key, now: nil)?.isExpired(at: Date()) ?? false
                let now = isExpired ? Date.distantPast : Date()
                try store.backend.move(key, to: newKey, policy: keys.policy, now: now)
            }
        }
    }
}

/// The keys of `move`.
struct TwoKeys: ParsableArguments {
    @Argument(help: "The item's key.", completion: .custom(Keys.keys))
    var key: String

    @Argument(help: "The new key.")
    var newKey: String

    @Option(help: "The new key's prefix. (default: the old one's)", completion: .custom(Keys.prefixes))
    var toPrefix: String?

    @Flag(help: "Replace the item that the new key already has.")
    var replace = false

    var policy: WritePolicy { replace ? .replace : .addOnly }
}

struct CopyCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "copy",
        abstract: "Copy an item to another key, or items to another store.",
        discussion: """
            The copy has the item's value, attributes and dates. Without --replace, an existing item is kept; \
            copying a single item then fails with status 4.

            With --to-store, the copies go into another store, such as one in a cluster. Without a key, all items \
            of the prefix are copied, or with --all those of all prefixes. Other programs can use both stores \
            meanwhile. If it is interrupted, run it again.

            Example: lockbox copy token token --to-prefix com.example.app
            """,
        aliases: ["cp"]
    )

    @Argument(help: "The item's key.", completion: .custom(Keys.keys))
    var key: String?

    @Argument(help: "The new key. With --to-store, the same key by default.")
    var newKey: String?

    @Option(help: "The new key's prefix. (default: the old one's)", completion: .custom(Keys.prefixes))
    var toPrefix: String?

    @Flag(help: "Replace the item that the new key already has.")
    var replace = false

    @OptionGroup var destination: DestinationOptions

    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    func validate() throws {
        guard destination.toStore == nil else {
            if destination.all, key != nil || options.prefix != nil {
                throw ValidationError(
                    "--all copies the items of all prefixes; leave out the key and --prefix."
                )
            }
            if key == nil, toPrefix != nil {
                throw ValidationError("--to-prefix is for one item. Give its key.")
            }
            return
        }
        if !destination.isEmpty {
            throw ValidationError("--all and the options for the other store need --to-store.")
        }
        if newKey == nil { throw ValidationError("Give the item's key and the new one, or --to-store.") }
    }

    func run() throws {
        try Failure.advising("Use --replace to overwrite it.", copy)
    }

    private func copy() throws {
        let store = try options.store()
        guard let other = try destination.store(of: store, prefix: toPrefix) else {
            let (key, newKey) = (key ?? "", newKey ?? "")
            return try store.unlocking {
                try store.lockbox.copyObject(forKey: key, toKey: newKey, toPrefix: toPrefix, policy: policy)
            }
        }
        try store.openIfLocked()
        try other.openIfLocked()
        guard let key else { return try copyAll(store, other) }
        guard let item = try store.backend.item(for: ItemKey(prefix: store.prefix, key: key), now: Date())
        else {
            throw store.missing(key)
        }
        try write(item.renamed(to: ItemKey(prefix: other.prefix, key: newKey ?? key)), to: other)
    }

    /// By today's date, as the item's own may be from before the expiry of what is there. Stores all of its dates.
    private func write(_ item: StoredItem, to other: Store) throws {
        do {
            try other.backend.update(item.key, now: Date()) { old in
                if let old, old != item, !replace { throw LockboxError.duplicateItem(key: item.key.key) }
                return item
            }
        } catch let error as LockboxError
            where replace && [.corrupt, .authenticationFailed].contains(error.code)
        {
            // Nothing stays of a damaged item.
            try other.backend.write(item, policy: .replace)
        }
    }

    private var policy: WritePolicy { replace ? .replace : .addOnly }

    private func copyAll(_ store: Store, _ other: Store) throws {
        var progress = ProgressReport("copy", quiet: options.quiet)
        defer { progress.end() }
        let report = try store.backend.copyItems(
            to: other.backend,
            prefix: destination.all ? nil : store.prefix,
            existing: replace ? .replace : .keep
        ) { progress.show($0) }
        progress.end()
        for key in report.keptKeys { try store.report("kept, and differs: \(key.text)") }
        try store.report("items copied: \(report.transferredKeys.count)")
        var failed = Unreadable()
        for finding in report.findings { failed.add(finding) }
        try failed.fail("Items that could not be copied", advice: "The others were copied.")
    }
}

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
