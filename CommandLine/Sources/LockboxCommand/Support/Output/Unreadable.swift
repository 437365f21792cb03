import Lockbox

/// The items that a command has skipped because they cannot be read.
struct Unreadable {
    private var lines: [String] = []
    private var isHidden = false
    private var isDamaged = false

    var count: Int { lines.count }

    init(_ items: [UnreadableItem] = []) { items.forEach { add($0) } }

    mutating func add(_ item: UnreadableItem) {
        note(item.error)
        let key = item.key.map { " (\($0.text))" } ?? ""
        lines.append("\(item.record.onOneLine)\(key): \(item.error.advice.onOneLine)")
    }

    mutating func add(_ key: ItemKey, _ error: LockboxError) {
        note(error)
        lines.append("\(key.text): \(error.advice.onOneLine)")
    }

    mutating func add(_ finding: StoreFinding) {
        lines.append("\(finding.location.onOneLine): \(finding.reason.onOneLine)")
    }

    private mutating func note(_ error: LockboxError) {
        if error.isHidden { isHidden = true } else { isDamaged = true }
    }

    /// Names them.
    func note() { for line in lines { Output.note("lockbox: \(line)") } }

    /// Names them, and fails if there are any: whoever ran the command must know that something is missing.
    func fail(_ what: String = "Items that cannot be read", advice: String) throws {
        note()
        if !lines.isEmpty { throw Failure(.damaged, "\(what): \(count). \(advice)") }
    }

    /// The same, with advice. Removal is advised only for what is damaged.
    func fail(in store: Store) throws {
        let damage =
            "\(isHidden ? "For those that are damaged: restore" : "Restore") them from a backup, or use "
            + "`lockbox remove --record` or `lockbox quarantine`."
        try fail(
            advice: [isHidden ? Self.repair(in: store) : nil, isDamaged ? damage : nil].compactMap(\.self)
                .joined(separator: " ")
        )
    }

    /// The command that brings back items which only permissions hide.
    static func repair(in store: Store) -> String {
        "If only permissions are wrong, `chmod -R go-rwx \(store.location.onOneLine)` repairs them."
    }
}

extension LockboxError {
    /// Whether the record could not be read at all, and may be whole.
    var isHidden: Bool { [.unsafePermissions, .unreadable, .storageFailure].contains(code) }
}
