import ArgumentParser
import Lockbox

struct RotateCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rotate",
        abstract: "Create new keys, and reseal every item with them.",
        discussion: """
            Use it when a passcode or a device key may have leaked. Other programs can keep reading and \
            writing. If it is interrupted, run it again.

            Example: lockbox rotate
            """
    )

    @OptionGroup var options: StoreOptions

    func run() throws {
        let store = try options.store()
        try store.openIfLocked()
        var progress = ProgressReport("rotate", quiet: options.quiet)
        defer { progress.end() }
        let report = try store.unlocking { try store.backend.rotateKeys { progress.show($0) } }
        progress.end()
        try store.report("items resealed: \(report.resealed)")
        guard report.isComplete else {
            for (record, error) in report.unreadable.sorted(by: { $0.key < $1.key }) {
                Output.note("lockbox: \(record.onOneLine): \(error.description.onOneLine)")
            }
            throw Failure(
                .damaged,
                "Items that cannot be read: \(report.notRevoked). They still use the old keys, which are kept. "
                    + "Restore these items from a backup, or use `lockbox remove --record` or "
                    + "`lockbox quarantine`; then run `lockbox rotate` again."
            )
        }
    }
}
