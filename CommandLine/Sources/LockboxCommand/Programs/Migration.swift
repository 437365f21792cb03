import ArgumentParser
import Lockbox

struct MigrateCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "migrate",
        abstract: "Migrate items that older programs have stored.",
        discussion: """
            The manifest is a JSON object with name, source (propertyList, json, environmentFile, netrc or \
            userDefaults), items (key, type, to, class, topKey) and keepsOldItems. Items that cannot be converted exactly are kept unchanged and listed, with exit status \
            4. If it is interrupted, it can be run again.

            Example: lockbox migrate settings-to-lockbox.json --dry-run
            """
    )

    @Argument(help: "The manifest.", completion: .file(extensions: ["json"]))
    var manifest: String

    @Flag(help: "Print what would be done, without doing it.")
    var dryRun = false

    @OptionGroup var options: StoreOptions

    func validate() throws { try Input.checkIsFile(manifest) }

    func run() throws {
        let migration = try Manifest(path: manifest).migration()
        try options.store().migrate(migration, dryRun: dryRun)
    }
}

extension Store {
    /// Prints the outcome for each item. Exits with status 4 if an item was refused.
    ///
    /// - Parameter refused: Items that are not part of the migration, with the reason.
    func migrate(
        _ migration: Migration,
        dryRun: Bool,
        refused: [(key: String, reason: String)] = []
    ) throws {
        var progress = ProgressReport("migrate", quiet: choice.quiet)
        let result = try unlocking {
            defer { progress.end() }
            return try lockbox.migrate(migration, dryRun: dryRun) { progress.show($0) }
        }
        for item in result.outcomes {
            // The command's own type for what it stores as JSON means nothing to the user.
            let isJSON = item.outcome == .refused(.wrongType(expected: "\(JSONValue.self)"))
            let outcome = isJSON ? "refused: it cannot be stored as JSON" : "\(item.outcome)"
            try report("\(item.key.onOneLine): \(outcome.onOneLine)")
        }
        for (key, reason) in refused { try report("\(key.onOneLine): refused: \(reason)") }
        let count = result.refused.count + refused.count
        if count > 0 {
            throw Failure(
                .conflict,
                "\(count) of \(result.outcomes.count + refused.count) items were refused and are unchanged."
            )
        }
    }
}

/// A migration described by a JSON file.
struct Manifest: Decodable {
    private let name: String
    private let source: Source?
    private let keepsOldItems: Bool?
    private let items: [Item]

    private enum CodingKeys: String, CodingKey { case name, source, keepsOldItems, items }

    /// Exactly one of these is set, or none for the store's own items.
    private struct Source: Decodable {
        let propertyList: String?
        let json: String?
        let environmentFile: String?
        let netrc: String?
        let userDefaults: String?

        enum CodingKeys: String, CodingKey { case propertyList, json, environmentFile, netrc, userDefaults }
    }

    private struct Item: Decodable {
        let key: String
        let type: Kind
        let to: String?
        let itemClass: String?
        let topKey: String?

        enum CodingKeys: String, CodingKey {
            case key, type, to, topKey
            case itemClass = "class"
        }
    }

    private enum Kind: String, Decodable, CaseIterable {
        case string, data, array, set, dictionary, date, value, json, archive, strongbox
    }

    init(path: String) throws {
        var data = try Input.file(path, name: "The manifest \(path.onOneLine)")
        if data.starts(with: "\u{FEFF}".utf8) { data = Data(data.dropFirst("\u{FEFF}".utf8.count)) }
        do {
            guard JSONValue.isStrict(data) else { throw Failure(.usage, "it is not JSON.") }
            let decoder = JSONDecoder()
            self = try decoder.decode(Manifest.self, from: data)
            try Self.checkMembers(decoder.decode(JSONValue.self, from: data))
        } catch {
            let reason = (error as? Failure)?.message ?? Self.reason(error)
            throw Failure(.usage, "The manifest \(path.onOneLine) is invalid: \(reason)")
        }
    }

    /// A misspelled member must not be ignored silently.
    private static func checkMembers(_ manifest: JSONValue) throws {
        guard case .object(let members) = manifest else { return }
        try check(members.keys, CodingKeys.self, "the top level")
        if case .object(let source)? = members["source"] {
            try check(source.keys, Source.CodingKeys.self, "source")
        }
        guard case .array(let items)? = members["items"] else { return }
        for (number, item) in items.enumerated() {
            if case .object(let item) = item {
                try check(item.keys, Item.CodingKeys.self, "items[\(number)]")
            }
        }
    }

    private static func check<Key: CodingKey>(_ names: some Sequence<String>, _: Key.Type, _ place: String)
        throws
    {
        if let name = names.sorted().first(where: { Key(stringValue: $0) == nil }) {
            throw Failure(.usage, "\(place) has an unknown member \(name.onOneLine).")
        }
    }

    func migration() throws -> Migration {
        try Migration(
            name,
            from: migrationSource(),
            items: items.map(Self.item),
            keepsOldItems: keepsOldItems ?? false
        )
    }

    private func migrationSource() throws -> MigrationSource {
        guard let source else { return .store }
        let sources: [MigrationSource] = [
            source.propertyList.map(MigrationSource.propertyList(at:)),
            source.json.map(MigrationSource.json(at:)),
            source.environmentFile.map(MigrationSource.environmentFile(at:)),
            source.netrc.map(MigrationSource.netrc(at:)),
            try source.userDefaults.map(MigrationSource.otherDefaults(suiteName:)),
        ].compactMap(\.self)
        guard let first = sources.first, sources.count == 1 else {
            throw Failure(
                .usage,
                "The manifest's source must be one of propertyList, json, environmentFile, netrc and userDefaults, or left out."
            )
        }
        return first
    }

    private static func item(_ item: Item) throws -> Migration.Item {
        let accessibility = try item.itemClass.map { name in
            guard let itemClass = ItemClass(rawValue: name) else {
                throw Failure(.usage, "The manifest has an unknown class \(name.onOneLine).")
            }
            return itemClass.accessibility
        }
        let (key, to) = (item.key, item.to)
        switch item.type {
        case .string: return .string(key, to: to, accessibility: accessibility)
        case .data: return .data(key, to: to, accessibility: accessibility)
        case .array: return .array(key, to: to, accessibility: accessibility)
        case .set: return .set(key, to: to, accessibility: accessibility)
        case .dictionary: return .dictionary(key, to: to, accessibility: accessibility)
        case .date: return .date(key, to: to, accessibility: accessibility)
        case .value: return .value(key, as: JSONValue.self, to: to, accessibility: accessibility)
        case .json: return .json(key, as: JSONValue.self, to: to, accessibility: accessibility)
        case .strongbox: return .strongbox(key, as: JSONValue.self, to: to, accessibility: accessibility)
        case .archive:
            return .archive(
                key,
                as: JSONValue.self,
                topKey: item.topKey,
                to: to,
                accessibility: accessibility
            )
        }
    }

    private static func reason(_ error: any Error) -> String {
        func path(_ context: DecodingError.Context) -> String {
            let path = context.codingPath.map { $0.intValue.map { "[\($0)]" } ?? ".\($0.stringValue)" }
                .joined()
            return path.isEmpty ? "the top level" : String(path.drop { $0 == "." }).onOneLine
        }
        switch error as? DecodingError {
        case .keyNotFound(let key, let context)?: return "there is no \(key.stringValue) in \(path(context))."
        case .typeMismatch(_, let context)?, .valueNotFound(_, let context)?:
            return "\(path(context)) has the wrong type."
        case .dataCorrupted(let context)? where !context.codingPath.isEmpty:
            return "\(path(context)) is not one of \(Kind.allCases.map(\.rawValue).joined(separator: ", "))."
        default: return "it is not JSON."
        }
    }
}

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

    @OptionGroup var options: StoreOptions

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

    @OptionGroup var options: StoreOptions

    func run() throws {
        try file.run(options, .netrc(at: file.file)) { .value($0, as: JSONValue.self, accessibility: $1) }
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
        try store.migrate(
            Migration(nil, from: source, items: items, keepsOldItems: !remove),
            dryRun: dryRun,
            refused: refused
        )
    }
}
