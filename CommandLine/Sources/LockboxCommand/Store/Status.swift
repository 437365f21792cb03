import ArgumentParser
import Lockbox

struct StatusCommand: Command {
    static let help: CommandHelp = """
        status: Print the store's location, identity, lock state, slots and prefixes.

        Needs no passcode, but checks one that is given.

        Example: lockbox status
        """

    @Flag(help: "Print a JSON object.")
    var json = false

    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    /// The `--json` output. Documented: fields may be added, but never removed.
    private struct Status: Encodable {
        struct Requirements: Encodable {
            let passcode: Bool
            let minimumClass: String?
            let identity: String?
        }

        let directory: String
        let identity: String
        let state: String
        let unlockedFor: String?
        let unlockedUntil: Date?
        /// The number of the store's keys, and of older keys that items may still need.
        let epoch: UInt32
        let olderEpochs: [UInt32]
        /// Whether a change of the keys is under way, or was interrupted, so that a rotation has to end it.
        let isInterrupted: Bool
        let slots: [SlotDescription]
        let requirements: Requirements
        /// A cluster's members.
        let members: [MemberDescription]?
        let prefixes: [String: Int]
    }

    /// The `--json` output if a cluster's store cannot be read.
    private struct Members: Encodable {
        let directory: String
        let members: [MemberDescription]
    }

    func run() throws {
        let store = try options.choice.store(for: .any)
        do { try report(store) } catch let error as LockboxError
            where [.notReachable, .accessDenied].contains(error.code)
        {
            // The members that answer show the reason.
            guard let members = store.cluster?.memberDescriptions else { throw error }
            if json {
                try Output.json(Members(directory: store.location, members: members))
            } else {
                try Output.fields([("store", store.location)])
                try MemberDescription.print(members)
            }
            throw error
        }
    }

    private func report(_ store: Store) throws {
        let backend = store.backend
        guard let keys = try backend.status() else { throw store.noStore }
        let (prefixes, unreadable) = try Self.prefixes(backend)
        let status = Status(
            directory: store.location,
            identity: keys.identity,
            state: "\(keys.lockState)",
            unlockedFor: keys.unlockScope.map { "\($0)" },
            unlockedUntil: keys.unlockedUntil,
            epoch: keys.epoch,
            olderEpochs: keys.olderEpochs,
            isInterrupted: keys.isInterrupted,
            slots: keys.slots.map(SlotDescription.init),
            requirements: Status.Requirements(
                passcode: options.requirePasscode,
                minimumClass: options.minimumClass?.rawValue,
                identity: options.identity?.lowercased()
            ),
            members: store.cluster?.memberDescriptions,
            prefixes: prefixes
        )
        // The output is the state for all programs, and not what the secret opens.
        try store.checkGiven()
        if json { try Output.json(status) } else { try print(status, keys.lockState) }
        try unreadable.fail(in: store)
    }

    /// The number of items of each prefix, and the items that cannot be read.
    static func prefixes(_ backend: SealedBackend) throws -> ([String: Int], Unreadable) {
        var (prefixes, unreadable) = ([String: Int](), Unreadable())
        for prefix in try backend.prefixes(unreadable: { unreadable.add($0) }) {
            prefixes[prefix] = 0
            try backend.forEachItem(prefix: prefix, now: Date(), unreadable: { unreadable.add($0) }) { _, _ in
                prefixes[prefix]! += 1
            }
        }
        return (prefixes, unreadable)
    }

    private func print(_ status: Status, _ state: LockState) throws {
        let fields: [(String, String?)] =
            [
                ("store", status.directory), ("identity", status.identity),
                ("state", Self.text(state, status.unlockedFor)), ("until", status.unlockedUntil?.local),
                ("keys", Self.text(status.epoch, status)),
                ("required", Self.text(status.requirements)),
            ]
        try Output.fields(fields.compactMap { name, value in value.map { (name, $0) } })
        if let members = status.members { try MemberDescription.print(members) }
        if !status.slots.isEmpty { try SlotDescription.print(status.slots) }
        let rows = status.prefixes.sorted { $0.key < $1.key }.map { [$0.key, "\($0.value)"] }
        if !rows.isEmpty { try Table(header: ["PREFIX", "ITEMS"], rows: rows).print() }
    }

    private static func text(_ state: LockState, _ scope: String?) -> String {
        switch state {
        case .unprotected: "no passcode: open"
        case .unlocked:
            scope == UnlockScope.user.rawValue ? "unlocked, for every program of this user" : "unlocked"
        case .locked: "locked, except for the afterFirstUnlock classes"
        case .beforeFirstUnlock: "locked"
        }
    }

    private static func text(_ epoch: UInt32, _ status: Status) -> String {
        let problem =
            status.isInterrupted
            ? "a change of the keys was interrupted, or is under way, and revoked secrets still open new items"
            : status.olderEpochs.isEmpty ? nil : "some items have older keys"
        return "epoch \(epoch)" + (problem.map { "; \($0): run lockbox rotate" } ?? "")
    }

    private static func text(_ requirements: Status.Requirements) -> String? {
        let texts = [
            requirements.passcode ? "a passcode" : nil,
            requirements.minimumClass.map { "items of the class \($0) or better" },
            requirements.identity.map { "the identity \($0)" },
        ].compactMap(\.self)
        return texts.isEmpty ? nil : texts.joined(separator: ", ")
    }
}

/// A member of a cluster as it is printed. Documented: fields may be added, but never removed.
struct MemberDescription: Encodable {
    let endpoint: String
    let state: String
    var version: String?
    var databaseBytes: UInt64?
    var milliseconds: Double?
    /// Why it did not answer.
    var reason: String?

    static func print(_ members: [MemberDescription]) throws {
        let rows = members.map { member -> [String] in
            let size = member.databaseBytes.map { "\($0 / 1024) KiB" }
            let latency = member.milliseconds.map { "\(($0 * 10).rounded(.towardZero) / 10) ms" }
            return [member.endpoint, member.state, member.version ?? "-", size ?? "-", latency ?? "-"]
        }
        try Table(header: ["MEMBER", "STATE", "VERSION", "DATABASE", "LATENCY"], rows: rows).print()
        for reason in members.compactMap(\.reason) { Output.note("lockbox: \(reason.onOneLine)") }
    }
}
