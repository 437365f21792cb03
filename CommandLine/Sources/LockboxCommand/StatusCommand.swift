import ArgumentParser
import Lockbox

struct StatusCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Print the store's location, lock state and prefixes.",
        discussion: """
            Needs no passcode.

            Example: lockbox status
            """
    )

    @Flag(help: "Print a JSON object.")
    var json = false

    @OptionGroup var options: StoreOptions

    /// The `--json` output. Documented: fields may be added, but never removed.
    private struct Status: Encodable {
        let directory: String
        let state: String
        let unlockedFor: String?
        let prefixes: [String: Int]
    }

    func run() throws {
        let store = try options.store()
        let backend = store.backend
        let (state, scope) = (try backend.lockState, try backend.unlockScope)
        var prefixes: [String: Int] = [:]
        var unreadable = Unreadable()
        for prefix in try backend.prefixes(unreadable: { unreadable.add($0) }) {
            var count = 0
            try backend.forEachItem(prefix: prefix, now: Date(), unreadable: { unreadable.add($0) }) { _, _ in
                count += 1
            }
            prefixes[prefix] = count
        }
        try print(state, scope, prefixes, backend.storage.directory)
        try unreadable.fail()
    }

    private func print(
        _ state: LockState,
        _ scope: UnlockScope?,
        _ prefixes: [String: Int],
        _ directory: String
    )
        throws
    {
        if json {
            let status = Status(
                directory: directory,
                state: "\(state)",
                unlockedFor: scope.map { "\($0)" },
                prefixes: prefixes
            )
            return try Output.json(status)
        }
        try Output.fields([("store", directory), ("state", Self.text(state, scope))])
        var table = Table(header: ["PREFIX", "ITEMS"])
        table.rows = prefixes.sorted { $0.key < $1.key }.map { [$0.key, "\($0.value)"] }
        if !table.rows.isEmpty { try table.print() }
    }

    private static func text(_ state: LockState, _ scope: UnlockScope?) -> String {
        switch state {
        case .noPasscode: "no passcode: open"
        case .unlocked: scope == .user ? "unlocked, for every program of this user" : "unlocked"
        case .locked: "locked, except for the afterFirstUnlock classes"
        case .beforeFirstUnlock: "locked"
        }
    }
}
