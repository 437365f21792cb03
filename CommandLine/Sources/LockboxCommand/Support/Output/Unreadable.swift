import Lockbox

/// The items that a command has skipped because they cannot be read.
struct Unreadable {
    private var lines: [String] = []

    var count: Int { lines.count }

    init(_ items: [UnreadableItem] = []) { items.forEach { add($0) } }

    mutating func add(_ item: UnreadableItem) {
        let key = item.key.map { " (\($0.text))" } ?? ""
        lines.append("\(item.record.onOneLine)\(key): \(item.error.advice.onOneLine)")
    }

    mutating func add(_ key: ItemKey, _ error: LockboxError) {
        lines.append("\(key.text): \(error.advice.onOneLine)")
    }

    mutating func add(_ finding: StoreFinding) {
        lines.append("\(finding.location.onOneLine): \(finding.reason.onOneLine)")
    }

    /// Names them.
    func note() { for line in lines { Output.note("lockbox: \(line)") } }

    /// Names them, and fails if there are any: whoever ran the command must know that something is missing.
    func fail(_ what: String = "Items that cannot be read", advice: String = Self.advice) throws {
        note()
        if !lines.isEmpty { throw Failure(.damaged, "\(what): \(count). \(advice)") }
    }

    private static let advice =
        "Restore them from a backup, or use `lockbox remove --record` or `lockbox quarantine`."
}
