import ArgumentParser
import Lockbox

extension Store {
    /// Runs a call that makes new keys, shows its progress, and prints what has become of the items.
    ///
    /// - Returns: The report, if every item is resealed or left for later on purpose.
    @discardableResult
    func makingKeys(
        _ work: String,
        later: Bool = false,
        _ body: ((StoreProgress) -> Void) throws -> RotationReport
    ) throws -> RotationReport {
        var progress = ProgressReport(work, quiet: choice.quiet)
        defer { progress.end() }
        let result = try body { progress.show($0) }
        progress.end()
        if later {
            try report(
                "The items are not resealed. Until `lockbox rotate`, whoever has the old keys can open them."
            )
            return result
        }
        try report("items resealed: \(result.resealedCount)")
        try checkIsComplete(result)
        return result
    }

    /// Names the records that could not be resealed.
    private func checkIsComplete(_ result: RotationReport) throws {
        if result.isComplete { return }
        for finding in result.findings {
            Output.note("lockbox: \(finding.location.onOneLine): \(finding.reason.onOneLine)")
        }
        if result.postponement != nil {
            throw Failure(
                .damaged,
                "The new keys are in use, but the items could not be resealed: whoever has the old keys can open them. "
                    + "Run `lockbox rotate`."
            )
        }
        if result.unrevokedCount == 0 {
            throw Failure(
                .damaged,
                "Damaged items: \(result.unreadableItems.count). The old keys are gone. Restore these items from a backup, or "
                    + "use `lockbox remove --record` or `lockbox quarantine`."
            )
        }
        throw Failure(
            .damaged,
            "Items that may still need the old keys: \(result.unrevokedCount). The old keys are kept for them alone. Make "
                + "these items readable, or restore them from a backup; then run `lockbox rotate` again."
        )
    }
}
