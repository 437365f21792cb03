import ArgumentParser
import Lockbox

struct SetCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "set",
        abstract: "Store a value, replacing the key's previous one.",
        discussion: """
            The value is read from standard input, or typed at a terminal. It is text; a newline at the end \
            is removed if it is the only one. With --data, the value is stored byte for byte. An empty value \
            is refused, because it may come from a command that failed.

            Attributes that you do not give keep their values: class, label, comment and searchable attributes. \
            The expiry belongs to the value: without --expires, the new value never expires. With --update, it \
            expires when the old one would have.

            Example: printf %s "$TOKEN" | lockbox set token --expires 7d --label "Web shop"
            """
    )

    @Argument(help: "The item's key.", completion: .custom(Keys.keys))
    var key: String

    @Argument(help: .hidden)
    var rest: [String] = []

    @Flag(help: "The value is JSON.")
    var json = false

    @Flag(help: "The value is bytes, not text.")
    var data = false

    @OptionGroup var item: ItemOptions

    @Flag(help: "Allow an empty value.")
    var allowEmpty = false

    @Flag(help: "Fail if the item already exists.")
    var add = false

    @Flag(help: "Fail if the item does not exist.")
    var update = false

    @OptionGroup var secret: UnlockOptions
    @OptionGroup var options: StoreOptions

    func validate() throws {
        // The message must not repeat the argument, which may be a secret.
        if !rest.isEmpty {
            throw ValidationError(
                "Pass the value on standard input: an argument is visible to others. If this was not a value, check the spelling of the options before it."
            )
        }
        if json && data { throw ValidationError("Give --json or --data, not both.") }
        if add && update { throw ValidationError("Give --add or --update, not both.") }
        if options.passcodeFd == STDIN_FILENO {
            throw ValidationError(
                "Standard input carries the value; use another descriptor for --passcode-fd."
            )
        }
    }

    func run() throws {
        let store = try options.store(unlockedBy: secret.secret)
        let key = try ItemKey(prefix: store.prefix, key: key)
        let value = try value()
        let policy: WritePolicy = add ? .addOnly : update ? .updateOnly : .replace
        let changes = try item.changes(value: value, policy: policy, now: Date())
        try Failure.advising("Leave out --add to overwrite it.") {
            try store.unlocking { try store.backend.write(changes, to: key) }
        }
        store.note("stored \(value)")
    }

    private func value() throws -> ArchivedValue {
        let input = try input()
        if json { return try ArchivedValue(data: Self.checked(json: input), format: .json) }
        if data {
            try checkIsMeant(isEmpty: input.isEmpty)
            return try ArchivedValue(data: input, format: .data)
        }
        guard let text = String(validating: input, as: UTF8.self)?.withoutOnlyNewline else {
            throw Failure(.usage, "Standard input is not UTF-8 text. Use --data to store bytes.")
        }
        try checkIsMeant(isEmpty: text.isEmpty)
        return try ArchivedValue(data: JSONValueCoder().encode(text), format: .json)
    }

    private func input() throws -> Data {
        guard Terminal.isThere(STDIN_FILENO) else { return try Input.all() }
        let typed = try Terminal.secret(
            "Value: ",
            otherwise: "There is no terminal to read the value from."
        )
        return Data(typed.bytes)
    }

    /// If the command before a pipe fails, it writes nothing. That must not replace an existing value.
    private func checkIsMeant(isEmpty: Bool) throws {
        if isEmpty, !allowEmpty {
            throw Failure(
                .usage,
                "The value is empty. Nothing was changed. Use --allow-empty to store it."
            )
        }
    }

    private static func checked(json: Data) throws -> Data {
        if json.isEmpty {
            throw Failure(.usage, "The value is empty, which is not valid JSON. Nothing was changed.")
        }
        guard JSONValue.isStrict(json) else {
            throw Failure(.usage, "The value is not valid JSON in UTF-8. Leave out --json to store text.")
        }
        return json
    }
}

extension String {
    /// Removes the newline that `echo` adds to a single line. Text with several lines, such as a PEM file, is
    /// unchanged.
    var withoutOnlyNewline: String {
        let bytes = utf8
        guard bytes.last == UInt8(ascii: "\n"),
            bytes.firstIndex(of: UInt8(ascii: "\n")) == bytes.index(before: bytes.endIndex)
        else { return self }
        return String(
            decoding: bytes.dropLast(bytes.dropLast().last == UInt8(ascii: "\r") ? 2 : 1),
            as: UTF8.self
        )
    }
}

struct ChangeCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "change",
        abstract: "Change an item's attributes, but not its value.",
        discussion: """
            Attributes that you do not give keep their values.

            Example: lockbox change token --expires 30d --label "Web shop"
            """
    )

    @Argument(help: "The item's key.", completion: .custom(Keys.keys))
    var key: String

    @OptionGroup var item: ItemOptions

    @OptionGroup var options: StoreOptions

    func validate() throws {
        if item.isEmpty { throw ValidationError("Name at least one attribute to change.") }
    }

    func run() throws {
        let store = try options.store()
        let changes = try item.changes(policy: .updateOnly, now: Date())
        let key = try ItemKey(prefix: store.prefix, key: key)
        try store.unlocking { try store.backend.write(changes, to: key) }
    }
}

/// The attributes of an item that a command changes. Those that are not given keep their values.
struct ItemOptions: ParsableArguments {
    @Option(
        name: .customLong("class"),
        help: "When the value can be read. A new item's default: whenUnlocked."
    )
    var itemClass: ItemClass?

    @Option(
        help: """
            When the item expires: a time span such as 8h or 7d, a date such as 2030-12-24 (midnight, local time) or \
            2030-12-24T12:00:00Z, or never.
            """
    )
    var expires: String?

    @Option(help: "A short text for people. Not for secrets.")
    var label: String?

    @Flag(help: "Remove the label.")
    var noLabel = false

    @Option(help: "A longer text for people. Not for secrets.")
    var comment: String?

    @Flag(help: "Remove the comment.")
    var noComment = false

    @Option(
        name: .customLong("attribute"),
        help: """
            A text that the item can be found by, as NAME=TEXT. Can be repeated. Replaces all existing ones. Not \
            for secrets.
            """
    )
    var attributes: [AttributePair] = []

    @Flag(help: "Remove all searchable attributes.")
    var noAttributes = false

    func validate() throws {
        if label != nil && noLabel { throw ValidationError("Give --label or --no-label, not both.") }
        if comment != nil && noComment { throw ValidationError("Give --comment or --no-comment, not both.") }
        if !attributes.isEmpty && noAttributes {
            throw ValidationError("Give --attribute or --no-attributes, not both.")
        }
        if Set(attributes.map(\.name)).count < attributes.count {
            throw ValidationError("Two --attribute options have the same name. Give each name only once.")
        }
    }

    var isEmpty: Bool {
        itemClass == nil && expires == nil && label == nil && comment == nil && attributes.isEmpty
            && !noLabel && !noComment && !noAttributes
    }

    func changes(value: ArchivedValue? = nil, policy: WritePolicy, now: Date) throws -> ItemChanges {
        ItemChanges(
            value: value,
            options: WriteOptions(
                accessibility: itemClass?.accessibility,
                expires: try expires.map { try expiry($0, now) } ?? .automatic,
                label: change(label, noLabel),
                comment: change(comment, noComment),
                attributes: change(attributes.isEmpty ? nil : attributes.dictionary, noAttributes),
                policy: policy
            ),
            modified: now
        )
    }

    private func change<Value>(_ value: Value?, _ isRemoved: Bool) -> AttributeChange<Value> {
        isRemoved ? .removed : value.map(AttributeChange.set) ?? .unchanged
    }

    private func expiry(_ text: String, _ now: Date) throws -> Expiry {
        if text == "never" { return .never }
        if let date = Lifetime.end(text, now: now), date > now { return .at(date) }
        throw Failure(
            .usage,
            "--expires takes a time span such as 8h or 7d, a future date such as 2030-12-24, or never."
        )
    }
}

/// An accessibility class, given by its name.
enum ItemClass: String, CaseIterable, ExpressibleByArgument {
    case whenUnlocked, afterFirstUnlock, always
    case whenUnlockedThisDeviceOnly, afterFirstUnlockThisDeviceOnly, alwaysThisDeviceOnly
    case whenPasscodeSetThisDeviceOnly

    var accessibility: Accessibility {
        switch self {
        case .whenUnlocked: .whenUnlocked
        case .afterFirstUnlock: .afterFirstUnlock
        case .always: .always
        case .whenUnlockedThisDeviceOnly: .whenUnlockedThisDeviceOnly
        case .afterFirstUnlockThisDeviceOnly: .afterFirstUnlockThisDeviceOnly
        case .alwaysThisDeviceOnly: .alwaysThisDeviceOnly
        case .whenPasscodeSetThisDeviceOnly: .whenPasscodeSetThisDeviceOnly
        }
    }

    static var allValueDescriptions: [String: String] {
        [
            "whenUnlocked": "while the store is unlocked",
            "afterFirstUnlock": "from the first unlock on, also after a lock",
            "always": "always",
            "whenUnlockedThisDeviceOnly": "like whenUnlocked; not in backups",
            "afterFirstUnlockThisDeviceOnly": "like afterFirstUnlock; not in backups",
            "alwaysThisDeviceOnly": "like always; not in backups",
            "whenPasscodeSetThisDeviceOnly":
                "while unlocked, only in a store with a passcode; not in backups",
        ]
    }
}

/// A searchable attribute as an argument: NAME=TEXT.
struct AttributePair: ExpressibleByArgument {
    let name: String
    let text: String

    init?(argument: String) {
        guard let equals = argument.firstIndex(of: "="), equals != argument.startIndex else { return nil }
        name = String(argument[..<equals])
        text = String(argument[argument.index(after: equals)...])
    }
}

extension [AttributePair] {
    var dictionary: [String: String] { Dictionary(map { ($0.name, $0.text) }) { $1 } }
}

/// Parses a time span: `30s`, `15m`, `8h`, `7d`, `2w`.
enum Lifetime {
    static func seconds(_ text: String) -> Int? {
        let units: [Character: Int] = ["s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800]
        guard let unit = text.last.flatMap({ units[$0] }), text.utf8.allSatisfy({ $0 != UInt8(ascii: "+") }),
            let count = Int(text.dropLast()), count > 0
        else { return nil }
        let (seconds, overflow) = count.multipliedReportingOverflow(by: unit)
        return overflow || seconds > 100 * 366 * 86400 ? nil : seconds
    }

    /// Parses an expiry date: a time span from now, or an ISO 8601 date. A day begins in the local time zone, in which dates are
    /// shown.
    static func end(_ text: String, now: Date) -> Date? {
        if let seconds = seconds(text) { return now.addingTimeInterval(TimeInterval(seconds)) }
        let full = text.contains("T") ? text : "\(text)T00:00:00Z"
        guard isOnTheCalendar(full), let date = try? Date(full, strategy: .iso8601) else { return nil }
        return text.contains("T") ? date : localDay(of: date)
    }

    private static func localDay(of midnight: Date) -> Date {
        var (seconds, day) = (time_t(midnight.timeIntervalSince1970), tm())
        gmtime_r(&seconds, &day)
        day.tm_isdst = -1
        return Date(timeIntervalSince1970: TimeInterval(mktime(&day)))
    }

    /// Foundation accepts February 30 as March 2, and 25:00 as 1:00 of the next day.
    private static func isOnTheCalendar(_ text: String) -> Bool {
        let parts = text.split(separator: "T", maxSplits: 1)
        guard parts.count == 2, let midnight = try? Date("\(parts[0])T00:00:00Z", strategy: .iso8601) else {
            return false
        }
        let units = parts[1].prefix { $0.isNumber || $0 == ":" }.split(separator: ":").compactMap { Int($0) }
        return midnight.formatted(.iso8601).hasPrefix("\(parts[0])T")
            && zip(units, [23, 59, 59]).allSatisfy { $0 <= $1 }
    }
}
