import ArgumentParser
import Lockbox

struct MigrateCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "migrate",
        abstract: "Bring along what older programs have stored, once.",
        discussion: """
            The manifest is a JSON file that names the source and the items; see the documentation of the command. What \
            cannot be read exactly stays as it is and is named, with status 4. Can be run again after an interruption.

            Example: lockbox migrate settings-to-lockbox.json --dry-run
            """
    )

    @Argument(help: "The manifest.", completion: .file(extensions: ["json"]))
    var manifest: String

    @Flag(help: "Say what would be done, and do nothing.")
    var dryRun = false

    @OptionGroup var options: StoreOptions

    func run() throws {
        let migration = try Manifest(path: manifest).migration()
        try options.store().migrate(migration, dryRun: dryRun)
    }
}

extension Store {
    /// Says what became of each item. What was refused makes it end with status 4.
    ///
    /// - Parameter refused: What is not in the migration, and why.
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
        for (key, outcome) in result.outcomes { try report("\(key.onOneLine): \("\(outcome)".onOneLine)") }
        for (key, reason) in refused { try report("\(key.onOneLine): refused: \(reason)") }
        let count = result.refused.count + refused.count
        if count > 0 {
            throw Failure(
                .conflict,
                "\(count) of \(result.outcomes.count + refused.count) items were refused, and are as they were."
            )
        }
    }
}
