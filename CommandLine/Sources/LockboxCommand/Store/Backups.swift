import ArgumentParser
import Lockbox

struct ExportCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export",
        abstract: "Write a backup file, encrypted with a passphrase.",
        discussion: """
            The backup can be imported into any store. Items of the ThisDeviceOnly classes are left out, and \
            listed. Without --prefix, items of all prefixes are included. An earlier backup that has an item which \
            the new one lacks, or that the passphrase does not open, stays beside it as FILE.earlier-1.

            Example: lockbox export /media/usb/lockbox-backup
            """
    )

    @Argument(
        help: "The file to write. Replaces an earlier backup, but no other file.",
        completion: .file()
    )
    var file: String

    @Option(help: "Read the passphrase from this file instead of asking.", completion: .file())
    var passphraseFile: String?

    @Option(help: "The cost of each guess at the passphrase.")
    var strength = Strength.moderate

    @Flag(help: "Replace an earlier backup whatever it has.")
    var replace = false

    @OptionGroup var options: StoreOptions

    func validate() throws { try Input.checkIsFile(file) }

    func run() throws {
        let store = try options.store()
        try store.openIfLocked()
        let passphrase = try SecretInput.new(
            "passphrase",
            file: passphraseFile,
            option: "--passphrase-file"
        )
        var progress = ProgressReport("export", quiet: options.quiet)
        defer { progress.end() }
        let report = try SecretInput.naming("passphrase") {
            try store.backend.exportBackup(
                to: file,
                passphrase: passphrase,
                prefix: options.prefix,
                strength: strength.strength,
                replacing: replace
            ) { progress.show($0) }
        }
        progress.end()
        for key in report.excludedKeys {
            try store.report("left out because it stays on this device: \(key.text)")
        }
        if let kept = report.keptBackup {
            try store.report("the earlier backup has more, or cannot be read, and is now \(kept.onOneLine)")
        }
        try store.report("items in the backup: \(report.exportedCount)")
        var unreadable = Unreadable()
        report.findings.forEach { unreadable.add($0) }
        try unreadable.fail(advice: "They are not in the backup.")
    }
}

struct ImportCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import",
        abstract: "Import a backup into this store.",
        discussion: """
            Nothing is written before the whole file has been authenticated. If it is interrupted, it can be \
            run again. A damaged item in the store is replaced. If its file is a link or has unsafe permissions, it \
            is first moved to quarantine.

            Example: lockbox import /media/usb/lockbox-backup
            """
    )

    /// The treatment of a different item that already exists.
    enum Existing: String, CaseIterable, ExpressibleByArgument {
        case keep, replace, fail

        var policy: ExistingItemPolicy {
            switch self {
            case .keep: .keep
            case .replace: .replace
            case .fail: .fail
            }
        }

        static var allValueDescriptions: [String: String] {
            [
                "keep": "keep the store's item unless it is damaged", "replace": "take the backup's item",
                "fail": "import nothing at all",
            ]
        }
    }

    @Argument(help: "The file to read.", completion: .file())
    var file: String

    @Option(help: "The treatment of a different item that already exists.")
    var existing = Existing.keep

    @Option(help: "Read the passphrase from this file instead of asking.", completion: .file())
    var passphraseFile: String?

    @OptionGroup var options: StoreOptions

    func validate() throws {
        try Input.checkIsFile(file)
        if options.prefix != nil {
            throw ValidationError("Items are imported with their original prefixes; leave out --prefix.")
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
        let report = try Failure.advising("Use --existing keep or --existing replace.") {
            try SecretInput.naming("passphrase") {
                try store.backend.importBackup(from: file, passphrase: passphrase, existing: existing.policy)
                {
                    progress.show($0)
                }
            }
        }
        progress.end()
        for key in report.keptKeys { try store.report("kept, and differs from the backup: \(key.text)") }
        try store.report("items imported: \(report.importedCount), unchanged: \(report.unchangedCount)")
        var failed = Unreadable()
        for finding in report.findings { failed.add(finding) }
        try failed.fail(advice: "They were not replaced by the backup's.")
    }
}
