import ArgumentParser
import Lockbox

struct VerifyCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify",
        abstract: "Check everything in the store, and change nothing.",
        discussion: """
            The exit status is 3 for every problem except leftover temporary files. For locked items, only the \
            attributes are checked unless a passcode is given.

            Example: lockbox verify
            """
    )

    @Flag(help: "Print a JSON object.")
    var json = false

    @OptionGroup var options: StoreOptions

    /// The `--json` output. Documented: fields may be added, but never removed.
    private struct Report: Encodable {
        struct Finding: Encodable {
            let kind: String
            let location: String
            let reason: String
        }

        let intact: Int
        let locked: Int
        let findings: [Finding]
    }

    func run() throws {
        let store = try options.store()
        if let passcode = SecretInput.passcode(options.choice) { try store.backend.unlock(passcode) }
        var progress = ProgressReport("verify", quiet: options.quiet)
        defer { progress.end() }
        let report = try store.backend.verify { progress.show($0) }
        progress.end()
        if json { try printJSON(report) } else { try print(report, store) }
        let problems = report.findings.count { $0.kind != .leftover }
        guard problems == 0 else { throw Failure(.damaged, "Problems found: \(problems). See the list.") }
    }

    private func printJSON(_ report: VerifyReport) throws {
        let findings = report.findings.map {
            Report.Finding(kind: "\($0.kind)", location: $0.location, reason: $0.reason)
        }
        try Output.json(Report(intact: report.intactCount, locked: report.lockedCount, findings: findings))
    }

    private func print(_ report: VerifyReport, _ store: Store) throws {
        for finding in report.findings {
            try Output.line("\(finding.kind): \(finding.location.onOneLine): \(finding.reason.onOneLine)")
        }
        try store.report("items intact: \(report.intactCount), of which locked: \(report.lockedCount)")
    }
}
