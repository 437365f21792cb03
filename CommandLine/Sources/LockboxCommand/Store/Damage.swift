import ArgumentParser
import Lockbox

struct VerifyCommand: Command {
    static let help: CommandHelp = """
        verify: Check everything in the store, and change nothing.

        The exit status is 3 for every problem except leftover temporary files. For locked items, only the \
        attributes are checked unless a passcode is given.

        Example: lockbox verify
        """

    @Flag(help: "Print a JSON object.")
    var json = false

    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    /// The `--json` output. Documented: fields may be added, but never removed.
    private struct Report: Encodable {
        let intact: Int
        let locked: Int
        let findings: [StoreFinding]
    }

    func run() throws {
        let store = try options.openStore()
        let report = try store.showingProgress(of: "verify") { try store.backend.verify(progress: $0) }
        if json {
            let (intact, locked) = (report.intactCount, report.lockedCount)
            try Output.json(Report(intact: intact, locked: locked, findings: report.findings))
        } else {
            for finding in report.findings {
                try Output.line("\(finding.kind): \(finding.location.onOneLine): \(finding.reason.onOneLine)")
            }
            try store.report("items intact: \(report.intactCount), of which locked: \(report.lockedCount)")
        }
        let problems = report.findings.count { $0.kind != .leftover }
        guard problems == 0 else { throw Failure(.damaged, "Problems found: \(problems). See the list.") }
    }
}

struct QuarantineCommand: Command {
    static let help: CommandHelp = """
        quarantine: Set aside items that cannot be read (stores in files only).

        The items no longer count as items of the store, so that everything else can go on without them. \
        Their bytes are kept in the store's quarantine folder.

        Example: lockbox quarantine qbk3c7ma-o5v…/q3h…
        """

    @Argument(help: "The items, as list, verify or rotate named them.")
    var records: [String]

    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    func run() throws {
        let store = try options.openStore()
        for record in records {
            try store.report("set aside: \(store.backend.quarantine(record: store.record(record)).onOneLine)")
        }
    }
}

struct AcceptRestoredCommand: Command {
    static let help: CommandHelp = """
        accept-restored: Accept a store that was restored from an older copy, replaced or removed.

        If this user has unlocked another store here, or one with newer keys, every command fails, because \
        an attacker may have put another or an old copy here. Run this only if you know who did. It asks for \
        the passcode, creates new keys and reseals every item.

        Example: lockbox accept-restored
        """

    @Flag(name: .shortAndLong, help: "Do not ask for confirmation.")
    var yes = false

    @OptionGroup(title: StoreHelp.title) var secret: UnlockOptions

    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    func run() throws {
        // Before it is accepted, nothing else can be asked of the store.
        let store = try options.store(unlockedBy: secret.secret, for: .any)
        guard try isRefused(store) else {
            try store.checkGiven()
            return store.say("The store is the one that was seen before, or newer. Nothing was changed.")
        }
        if !yes { try confirm(store) }
        try store.makingKeys("accept-restored") { try accept(store, $0) }
        guard let status = try store.backend.status() else {
            return try store.report(
                "Accepted: there is no store in \(store.location.onOneLine). The next `lockbox set` makes a new one, without a passcode."
            )
        }
        try store.report("The restored store is accepted. Its keys are new.")
        if status.slots.isEmpty {
            try store.report(
                "It has no passcode: everyone with its device key can read it. If it had one, it is not your store."
            )
        }
    }

    private func isRefused(_ store: Store) throws -> Bool {
        do { _ = try store.backend.status() } catch let error as LockboxError
            where [.rolledBack, .storeReplaced, .authenticationFailed].contains(error.code)
        {
            return true
        }
        return false
    }

    private func confirm(_ store: Store) throws {
        let otherwise =
            "There is no terminal to ask at: use --yes if you restored the store yourself. Nothing was changed."
        let place = store.location.onOneLine
        let isGone = store.cluster == nil && access(store.location, F_OK) != 0
        let question =
            isGone
            ? "There is no store in \(place) any more. Forget it?"
            : "Everything written since this copy was made is lost. If you did not put it there, an attacker may have made it. "
                + "Accept \(place)?"
        try Terminal.confirm(question, inFull: true, otherwise: otherwise)
    }

    /// Asks for the passcode only if something has to unlock the store.
    private func accept(_ store: Store, _ progress: Store.Progress) throws -> RotationReport {
        func accept(_ method: any UnlockMethod) throws -> RotationReport {
            try store.backend.acceptRestored(method, progress: progress)
        }
        do { if let report = try store.unlockWithGiven(accept) { return report } } catch LockboxError
            .passcodeNotSet
        {
            throw Failure(
                .locked,
                "The copy is from before the store had a passcode. Nothing was changed. To accept it, leave the passcode out."
            )
        }
        do { return try store.backend.acceptRestored(progress: progress) } catch LockboxError
            .interactionNotAllowed
        {
            return try store.threeTimes(.passcode, SecretInput.missing, accept)
        }
    }
}
