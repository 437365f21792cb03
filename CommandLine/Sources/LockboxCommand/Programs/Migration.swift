import ArgumentParser
import Lockbox
import LockboxImport

struct ImportEnvCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import-env",
        abstract: "Store the variables of an .env file.",
        discussion: """
            Each variable is stored as text under its name, even if it is empty. An existing item with \
            another value is kept, and listed. Variables such as PATH or LD_PRELOAD, which control what \
            programs run, are refused unless they are given with --allow-variable.

            Example: lockbox import-env .env --remove
            """
    )

    @OptionGroup var file: ImportedFile

    @Option(
        help: ArgumentHelp(
            "Import this variable although it controls what programs run. Can be repeated.",
            valueName: "name"
        )
    )
    var allowVariable: [String] = []

    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    func run() throws {
        try file.run(
            options,
            .environmentFile(at: file.file),
            refusing: { VariableName.refusal(ofKey: $0, allowed: allowVariable) }
        ) {
            .string($0, accessibility: $1)
        }
    }
}

struct ImportNetrcCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import-netrc",
        abstract: "Store the logins of a netrc file.",
        discussion: """
            Each login is stored as JSON with machine, login, password, account, port and protocol, under a key such as \
            alice@example.com. An existing item with another value is kept, and listed.

            Example: lockbox import-netrc ~/.netrc --prefix netrc
            """
    )

    @OptionGroup var file: ImportedFile

    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    func run() throws {
        try file.run(options, .netrc(at: file.file)) {
            .value($0, as: [String: String].self, accessibility: $1)
        }
    }
}

/// The options and steps that both commands share.
struct ImportedFile: ParsableArguments {
    @Argument(help: "The file to read.", completion: .file())
    var file: String

    @Flag(help: "Remove the stored items from the file. The rest of the file is kept.")
    var remove = false

    @Option(name: .customLong("class"), help: "When the values can be read.")
    var itemClass = ItemClass.whenUnlocked

    @Flag(help: "Print what would be done, without doing it.")
    var dryRun = false

    func validate() throws { try Input.checkIsFile(file) }

    func run(
        _ options: StoreOptions,
        _ source: MigrationSource,
        refusing refusal: (String) -> String? = { _ in nil },
        _ item: (String, Accessibility) -> Migration.Item
    ) throws {
        let store = try options.store()
        guard access(file, R_OK) == 0 else {
            throw Failure(
                .inputOutput,
                "\(file.onOneLine) cannot be read: \(String(cString: strerror(errno)))."
            )
        }
        let keys = try source.keys(for: store.lockbox)
        if keys.isEmpty { throw Failure(.noSuchItem, "There is nothing in \(file.onOneLine) to import.") }
        let refused = keys.compactMap { key in refusal(key).map { (key: key, reason: $0) } }
        let items = keys.filter { refusal($0) == nil }.map { item($0, itemClass.accessibility) }
        let migration = Migration(nil, from: source, items: items, keepsOldItems: !remove)
        var progress = ProgressReport("import", quiet: store.choice.quiet)
        let result = try store.unlocking {
            defer { progress.end() }
            return try store.lockbox.migrate(migration, dryRun: dryRun) { progress.show($0) }
        }
        try report(result, refused, store)
    }

    /// Prints the outcome for each item. Exits with status 4 if an item was refused.
    ///
    /// - Parameter refused: Items that are not part of the migration, with the reason.
    private func report(_ result: MigrationReport, _ refused: [(key: String, reason: String)], _ store: Store)
        throws
    {
        for item in result.outcomes {
            try store.report("\(item.key.onOneLine): \("\(item.outcome)".onOneLine)")
        }
        for (key, reason) in refused { try store.report("\(key.onOneLine): refused: \(reason)") }
        let count = result.refused.count + refused.count
        if count > 0 {
            throw Failure(
                .conflict,
                "\(count) of \(result.outcomes.count + refused.count) items were refused and are unchanged."
            )
        }
    }
}
