import ArgumentParser
import Lockbox
import LockboxImport

struct ImportEnvCommand: Command {
    static let help: CommandHelp = """
        import-env: Store the variables of an .env file.

        Each variable is stored as text under its name, even if it is empty; - is standard input. All are stored, or \
        none: if a line cannot be read, a name occurs twice, or an item has another value, all of these are named, and the \
        status is 4. No program gets a variable because it was in the file: `lockbox exec` passes what you name.

        Example: lockbox import-env .env --remove
        """

    @OptionGroup var file: ImportedFile

    @Option(help: "The program whose rules the file follows.")
    var dialect = EnvironmentDialect.common

    @Flag(help: "Values are read as they are: --dialect docker.")
    var literal = false

    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    func run() throws {
        let dialect = literal ? .docker : dialect
        try file.run(
            options.store(for: .making),
            { .environmentFile(at: file.file, dialect: dialect, text: $0) }
        ) { .string($0, accessibility: $1) }
    }
}

struct ImportNetrcCommand: Command {
    static let help: CommandHelp = """
        import-netrc: Store the logins of a netrc file.

        Each login becomes an internet password, under the prefix internet-passwords, where git's and Docker's helpers \
        find it. A machine without a login, or whose name is no host's, and `default`, which is for every machine, are \
        named and left out. An entry with an account is refused. All are stored, or none.

        Example: lockbox import-netrc ~/.netrc --remove
        """

    @OptionGroup var file: ImportedFile

    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    func run() throws {
        let store = try options.choice.store(prefix: InternetPassword.sharedPrefix, for: .making)
        var names: [String] = []
        try file.run(
            store,
            { .netrc(at: file.file, text: $0) },
            leavingOut: Self.omission
        ) {
            let password = InternetPassword(netrcKey: $0)!
            names.append(password.key.name)
            return .netrc($0, as: password, accessibility: $1)
        }
        if names.isEmpty || file.migration.dryRun { return }
        store.tell("Stored as \(names.joined(separator: ", ")) in the prefix \(store.prefix.onOneLine).")
    }
}

extension ImportNetrcCommand {
    /// Why a login is left out, or nil.
    private static func omission(_ key: String) -> String? {
        if let password = InternetPassword(netrcKey: key) {
            return password.account.hasControlCharacters
                ? "git is never given a login with a control character" : nil
        }
        guard let at = key.lastIndex(of: "@") else { return "it has no login" }
        let machine = key[key.index(after: at)...]
        if machine == "default" { return "it is for every machine" }
        if !machine.utf8.allSatisfy({ $0 < 0x80 }) {
            return "its machine is not in ASCII: write it as it is sent, which begins with xn--"
        }
        if machine.wholeMatch(of: /\[?[0-9A-Fa-f]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*\]?/) != nil {
            return "its machine is an address of IPv6: store it with `git credential approve`"
        }
        return "its machine or port is none of the Internet"
    }
}

/// The items of a file that are to be stored.
struct FileMigration {
    let file: String
    let source: MigrationSource
    let items: [Migration.Item]
    /// Whether they leave the file.
    let removes: Bool

    /// Stores all items, or none if one is refused, and prints what becomes of each.
    ///
    /// - Parameter omission: Why one of the keys has no item.
    func run(
        in store: Store,
        keys: [String],
        isDryRun: Bool = false,
        leavingOut omission: (String) -> String? = { _ in nil }
    ) throws {
        var result = try dryRun(in: store)
        let isStored = result.refused.isEmpty && !isDryRun
        // Another program may have written in the meantime.
        if isStored { result = try perform(in: store) }
        let refused = result.refused
        let outcomes = Dictionary(uniqueKeysWithValues: result.outcomes.map { ($0.key, $0.outcome) })
        for key in keys {
            if let refusal = refused[key] { Output.note("lockbox: \(key): refused: \(refusal)") }
            let text =
                omission(key).map { "left out: \($0)" }
                ?? outcomes[key].flatMap { self.text($0, isStored: isStored) }
            if let text { try store.report("\(key): \(text)") }
        }
        if refused.isEmpty { return }
        let rest = isStored ? "The others were" : "Nothing was"
        throw Failure(
            .conflict,
            "\(refused.count) of \(keys.count) items of the prefix \(store.prefix.onOneLine) were refused. \(rest) stored."
        )
    }

    private func text(_ outcome: MigrationReport.Outcome, isStored: Bool) -> String? {
        switch outcome {
        case .migrated:
            !isStored ? "would be stored" : removes ? "stored, and removed from the file" : "stored"
        case .alreadyMigrated, .migratedBefore: "is stored already"
        case .absent: "has no value"
        default: nil
        }
    }

    private func dryRun(in store: Store) throws -> MigrationReport {
        func dryRun(removing: Bool) throws -> MigrationReport {
            try store.unlocking { try store.lockbox.migrate(migration(removing: removing), dryRun: true) }
        }
        do { return try dryRun(removing: removes) } catch let error as LockboxError
            where removes && error.status == .inputOutput && (try? dryRun(removing: false)) != nil
        {
            throw Failure(
                error.status,
                "Nothing was stored, because nothing can leave \(file.onOneLine). \(error.advice)"
            )
        }
    }

    /// Migrates items that a dry run has not refused.
    private func perform(in store: Store) throws -> MigrationReport {
        do {
            return try store.showingProgress(of: "import") {
                try store.lockbox.migrate(migration(removing: removes), progress: $0)
            }
        } catch let error as LockboxError where error.status == .inputOutput {
            let report = try? store.lockbox.migrate(migration(removing: false), dryRun: true)
            let count = report?.outcomes.count { $0.outcome == .alreadyMigrated } ?? 0
            let what = "Items stored: \(count) of \(items.count)."
            guard removes, count == items.count else {
                throw Failure(error.status, "\(what) \(error.advice) Run this again.")
            }
            throw Failure(
                error.status,
                "\(what) They are in \(file.onOneLine) still, which cannot be replaced. \(error.advice) If it is a mount of its own, "
                    + "or lsattr shows i or a, take them out by hand."
            )
        }
    }

    private func migration(removing: Bool) -> Migration {
        Migration(nil, from: source, items: items, keepsOldItems: !removing)
    }
}

/// A file, and what becomes of its items.
struct ImportedFile: ParsableArguments {
    @Argument(help: "The file to read.", completion: .file())
    var file: String

    @Flag(help: "Remove the stored items from the file. The rest of the file is kept.")
    var remove = false

    @OptionGroup var migration: ImportOptions

    func validate() throws {
        if remove, file == "-" { throw ValidationError("Nothing can be removed from standard input.") }
    }

    func run(
        _ store: Store,
        _ source: (Data?) -> MigrationSource,
        leavingOut omission: (String) -> String? = { _ in nil },
        _ item: ImportOptions.Item
    ) throws {
        let text = try text()
        let source = source(text)
        try migration.run(store, source, named: file, removing: remove, leavingOut: omission, item)
        if remove || migration.dryRun || text != nil { return }
        store.tell("\(file.onOneLine) still has them in plain text: --remove takes them out.")
    }

    /// Returns the text of a pipe, which cannot be read twice, or nil for a file, which the library reads.
    private func text() throws -> Data? {
        var status = stat()
        if file != "-", stat(file, &status) == 0, status.st_mode & S_IFMT == S_IFREG, access(file, R_OK) == 0
        {
            return nil
        }
        if remove, access(file, R_OK) == 0 {
            throw Failure(.usage, "\(file.onOneLine) is no file, so nothing can be removed from it.")
        }
        return try file == "-" ? Input.all() : Input.all(ofFile: file)
    }
}

/// The options and steps that all imports from older programs share.
struct ImportOptions: ParsableArguments {
    @Option(name: .customLong("class"), help: "When the values can be read.")
    var itemClass = ItemClass.whenUnlocked

    @Flag(help: "Print what would be done, without doing it.")
    var dryRun = false

    typealias Item = (String, Accessibility) -> Migration.Item

    func run(
        _ store: Store,
        _ source: MigrationSource,
        named file: String,
        removing removes: Bool = false,
        leavingOut omission: (String) -> String? = { _ in nil },
        _ item: Item
    ) throws {
        let keys = try source.keys(for: store.lockbox)
        if keys.isEmpty { throw Failure(.noSuchItem, "There is nothing in \(file.onOneLine) to import.") }
        let items = keys.filter { omission($0) == nil }.map { item($0, itemClass.accessibility) }
        try FileMigration(file: file, source: source, items: items, removes: removes)
            .run(in: store, keys: keys, isDryRun: dryRun, leavingOut: omission)
    }
}
