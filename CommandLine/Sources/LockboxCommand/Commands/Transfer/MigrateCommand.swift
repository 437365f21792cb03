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
