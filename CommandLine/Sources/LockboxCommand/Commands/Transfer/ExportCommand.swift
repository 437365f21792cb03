import ArgumentParser
import Lockbox

struct ExportCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export",
        abstract: "Write a backup file, encrypted with a passphrase.",
        discussion: """
            The backup can be imported into any store. Items of the ThisDeviceOnly classes are left out, and \
            listed. Without --prefix, items of all prefixes are included.

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

    @OptionGroup var options: StoreOptions

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
                strength: strength.strength
            ) { progress.show($0) }
        }
        progress.end()
        for key in report.leftOut {
            try store.report("left out because it stays on this device: \(key.text)")
        }
        try store.report("items in the backup: \(report.exported)")
        var unreadable = Unreadable()
        report.findings.forEach { unreadable.add($0) }
        try unreadable.fail(advice: "They are not in the backup.")
    }
}
