import ArgumentParser
import Lockbox

struct ImportCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Read a backup into this store.",
        discussion: """
            Nothing is written before the whole file has been found to be genuine. Can be run again after an interruption.

            Example: lockbox import /media/usb/lockbox-backup
            """
    )

    /// What is to be done with items that are there, and are others.
    enum Existing: String, CaseIterable, ExpressibleByArgument {
        case keep, replace, fail

        var policy: ImportPolicy {
            switch self {
            case .keep: .keep
            case .replace: .replace
            case .fail: .fail
            }
        }

        static var allValueDescriptions: [String: String] {
            [
                "keep": "keep the store's item", "replace": "take the backup's item",
                "fail": "import nothing at all",
            ]
        }
    }

    @Argument(help: "The file to read.", completion: .file())
    var file: String

    @Option(help: "What to do with an item that is there already, and is not the same.")
    var existing = Existing.keep

    @Option(help: "Read the passphrase from this file, instead of asking.", completion: .file())
    var passphraseFile: String?

    @OptionGroup var options: StoreOptions

    func validate() throws {
        if options.prefix != nil {
            throw ValidationError("Items are imported under the prefixes that they had.")
        }
    }

    func run() throws {
        let store = try options.store()
        try store.openIfLocked()
        let passphrase = try SecretInput.existing(
            "passphrase of the backup",
            file: passphraseFile,
            option: "--passphrase-file"
        )
        var progress = ProgressReport("import", quiet: options.quiet)
        defer { progress.end() }
        let report = try store.backend.importBackup(
            from: file,
            passphrase: passphrase,
            existing: existing.policy
        ) {
            progress.show($0)
        }
        progress.end()
        for key in report.kept { try store.report("kept against the backup: \(key.text)") }
        try store.report("items imported: \(report.imported), unchanged: \(report.unchanged)")
    }
}
