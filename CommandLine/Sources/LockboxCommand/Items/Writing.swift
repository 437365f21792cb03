import ArgumentParser
@_spi(Extensions) import Lockbox

struct SetCommand: Command {
    static let help: CommandHelp = """
        set, insert: Store a value, replacing the key's previous one.

        The value is read from standard input, or typed at a terminal. It is text; a newline at the end \
        is removed if it is the only one. With --data, the value is stored byte for byte. An empty value \
        is refused, because it may come from a command that failed.

        Attributes that you do not give keep their values: class, label, comment and searchable attributes. \
        The expiry belongs to the value: without --expires, the new value never expires. With --update, it \
        expires when the old one would have. If the value is typed, it asks before it replaces one. `add` is `set --add`.

        Example: printf %s "$TOKEN" | lockbox set token --expires 7d --label "Web shop"
        """

    @Argument(help: "The item's key.", completion: .custom(Keys.keys))
    var key: String

    @Argument(help: .hidden)
    var rest: [String] = []

    @Flag(help: "The value is JSON.")
    var json = false

    @Flag(help: "The value is bytes, not text.")
    var data = false

    @OptionGroup(title: "Attributes") var item: ItemOptions

    @Flag(help: "Allow an empty value.")
    var allowEmpty = false

    @Flag(help: "Fail if the item already exists.")
    var add = false

    @Flag(help: "Fail if the item does not exist.")
    var update = false

    @Flag(name: .shortAndLong, help: "Do not ask before a value is replaced.")
    var yes = false

    @OptionGroup(title: StoreHelp.title) var secret: UnlockOptions
    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    func validate() throws {
        // The message must not repeat the argument, which may be a secret.
        if !rest.isEmpty {
            throw ValidationError(
                "Pass the value on standard input: an argument is visible to others. If this was not a value, check the spelling of the options before it."
            )
        }
        if json && data { throw ValidationError("Give --json or --data, not both.") }
        if add && update { throw ValidationError("Give --add or --update, not both.") }
        try options.checkStandardInput(carries: "the value")
    }

    func run() throws {
        let store = try options.store(unlockedBy: secret.secret, for: .making)
        let key = try ItemKey(prefix: store.prefix, key: key)
        let policy: WritePolicy = add ? .addOnly : update ? .updateOnly : .replace
        if policy == .replace, !yes, Terminal.isThere(STDIN_FILENO) { try store.confirmReplacement(of: key) }
        let value = try value()
        try Failure.advising("Leave out --add to overwrite it.") {
            try item.write(value, to: key, of: store, policy: policy)
        }
        let kind = value.isText ? "text" : "\(value.format)"
        store.note("stored \(((try? value.plain(key.key)) ?? value.data).count.bytes) of \(kind)")
    }

    private func value() throws -> ArchivedValue {
        let input = try input()
        if json {
            if input.isEmpty {
                throw Failure(.usage, "The value is empty, which is not valid JSON. Nothing was changed.")
            }
            guard JSONValue.isStrict(input) else {
                throw Failure(.usage, "The value is not valid JSON in UTF-8. Leave out --json to store text.")
            }
            return try ArchivedValue(data: input, format: .json)
        }
        let text = data ? nil : String(validating: input, as: UTF8.self)?.withoutOnlyNewline
        if text == nil, !data {
            throw Failure(.usage, "Standard input is not UTF-8 text. Use --data to store bytes.")
        }
        // If the command before a pipe fails, it writes nothing. That must not replace an existing value.
        if text?.isEmpty ?? input.isEmpty, !allowEmpty {
            throw Failure(.usage, "The value is empty. Nothing was changed. Use --allow-empty to store it.")
        }
        guard let text else { return try ArchivedValue(data: input, format: .data) }
        return try .text(text)
    }

    private func input() throws -> Data {
        guard Terminal.isThere(STDIN_FILENO) else { return try Input.all() }
        let otherwise = "There is no terminal to read the value from."
        let several = " Several lines: \(Self.severalLines)"
        let typed = try Terminal.secret("Value: ", several: several, otherwise: otherwise)
        return Data(typed.bytes)
    }

    static let severalLines = "`cat | lockbox set KEY`, which Ctrl-D ends, or `lockbox edit KEY`."
}

extension StoreOptions {
    func checkStandardInput(carries what: String) throws {
        if passcodeFd != STDIN_FILENO { return }
        throw ValidationError("Standard input carries \(what); use another descriptor for --passcode-fd.")
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

struct ChangeCommand: Command {
    static let help: CommandHelp = """
        change: Change an item's attributes, but not its value.

        Attributes that you do not give keep their values.

        Example: lockbox change token --expires 30d --label "Web shop"
        """

    @Argument(help: "The item's key.", completion: .custom(Keys.keys))
    var key: String

    @OptionGroup var item: ItemOptions

    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    func validate() throws {
        if item.isEmpty { throw ValidationError("Name at least one attribute to change.") }
    }

    func run() throws {
        let store = try options.store()
        try item.write(nil, to: ItemKey(prefix: store.prefix, key: key), of: store, policy: .updateOnly)
    }
}

/// The attributes of an item that a command changes. Those that are not given keep their values.
struct ItemOptions: ParsableArguments {
    @Option(
        name: .customLong("class"),
        help: """
            When the value can be read: from the first unlock on, or only while the store is unlocked. ThisDeviceOnly is in no backup. \
            A new item's default: whenUnlocked.
            """
    )
    var itemClass: ItemClass?

    @Option(
        help: """
            When the item expires: a time span such as 8h or 7d, the end of a day such as tomorrow or 2030-12-24, a local time \
            such as "2030-12-24 18:00", 2030-12-24T12:00:00Z, or never.
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
        help: .init(
            "A text that the item can be found by. Can be repeated. Others stay. Not for secrets.",
            valueName: "NAME=TEXT"
        )
    )
    var attributes: [AttributePair] = []

    @Option(
        name: .customLong("no-attribute"),
        help: .init("Remove this searchable attribute. Can be repeated.", valueName: "name")
    )
    var removedAttributes: [String] = []

    @Flag(help: "Remove all searchable attributes, except those that are given.")
    var noAttributes = false

    func validate() throws {
        if label != nil && noLabel { throw ValidationError("Give --label or --no-label, not both.") }
        if comment != nil && noComment { throw ValidationError("Give --comment or --no-comment, not both.") }
        if Set(attributes.map(\.name) + removedAttributes).count < attributes.count + removedAttributes.count
        {
            throw ValidationError("Two options are about one attribute. Give each name only once.")
        }
    }

    var isEmpty: Bool {
        itemClass == nil && expires == nil && label == nil && comment == nil && attributes.isEmpty
            && !noLabel && !noComment && !noAttributes && removedAttributes.isEmpty
    }

    /// Writes the value, if there is one, and what the options change.
    func write(_ value: ArchivedValue?, to key: ItemKey, of store: Store, policy: WritePolicy) throws {
        let now = Date()
        let options = WriteOptions(
            accessibility: itemClass?.accessibility,
            expires: try expires.map { try expiry($0, now) } ?? .automatic,
            label: change(label, noLabel),
            comment: change(comment, noComment),
            policy: policy
        )
        var changes = ItemChanges(value: value, options: options, modified: now)
        try store.unlocking(for: key.key) {
            if noAttributes { changes.options.attributes = .set(attributes.dictionary) }
            if noAttributes || attributes.isEmpty && removedAttributes.isEmpty {
                return try store.backend.write(changes, to: key)
            }
            try store.backend.update(key, now: changes.expiryTime) { old in
                let kept = (old?.attributes.searchable ?? [:]).filter { !removedAttributes.contains($0.key) }
                changes.options.attributes = .set(kept.merging(attributes.dictionary) { $1 })
                return try changes.item(after: old, for: key)
            }
        }
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

/// A searchable attribute as an argument: NAME=TEXT.
struct AttributePair: ExpressibleByArgument {
    let name: String
    let text: String

    init?(argument: String) {
        guard let found = argument.wholeMatch(of: /([^=]+)=(.*)/.dotMatchesNewlines()) else { return nil }
        (name, text) = (String(found.1), String(found.2))
    }
}

extension [AttributePair] {
    var dictionary: [String: String] { Dictionary(map { ($0.name, $0.text) }) { $1 } }
}

/// Parses a time span: `30s`, `15m`, `8h`, `7d`, `2w`.
enum Lifetime {
    static func seconds(_ text: String) -> Int? {
        let units: [Substring: Int] = ["s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800]
        let found = text.wholeMatch(of: /([0-9]+)([smhdw])/)
        guard let found, let count = Int(found.1), count > 0 else { return nil }
        let (seconds, overflow) = count.multipliedReportingOverflow(by: units[found.2]!)
        return overflow || seconds > 100 * 366 * 86400 ? nil : seconds
    }

    /// Parses an expiry date: a time span from now, the end of a local day, a local minute, or a date and time of ISO 8601 with its
    /// zone. Dates are shown in the local zone too.
    static func end(_ text: String, now: Date) -> Date? {
        if let seconds = seconds(text) { return now.addingTimeInterval(TimeInterval(seconds)) }
        let local = /(today|tomorrow|[0-9]{4}-[0-9]{2}-[0-9]{2})(?:[ T]([0-9]{1,2}(?::[0-9]{2}){1,2}))?/
        if let found = text.wholeMatch(of: local) {
            var (seconds, time) = (time_t(now.timeIntervalSince1970), tm())
            localtime_r(&seconds, &time)
            let day = found.1.split(separator: "-").compactMap { CInt($0) }
            if day.count == 3 {
                (time.tm_year, time.tm_mon, time.tm_mday) = (day[0] - 1900, day[1] - 1, day[2])
            }
            if found.1 == "tomorrow" { time.tm_mday += 1 }
            let clock = (found.2 ?? "23:59:59").split(separator: ":").compactMap { CInt($0) } + [0]
            (time.tm_hour, time.tm_min, time.tm_sec) = (clock[0], clock[1], clock[2])
            return date(time, isTomorrow: day.isEmpty)
        }
        let parts = text.split(separator: "T", maxSplits: 1)
        guard parts.count == 2, let clock = parts[1].prefixMatch(of: /(\d\d):(\d\d):(\d\d)/),
            clock.1 < "24", clock.2 < "60", clock.3 < "60",
            // Foundation takes February 30 for March 2.
            end("\(parts[0]) 12:00", now: now) != nil
        else { return nil }
        return try? Date(text, strategy: .iso8601)
    }

    /// Returns nil for a day or a time that does not exist, also for one that is left out when summer time begins.
    private static func date(_ time: tm, isTomorrow: Bool) -> Date? {
        var made = time
        made.tm_isdst = -1
        let seconds = mktime(&made)
        let isSame =
            made.tm_hour == time.tm_hour && made.tm_min == time.tm_min && made.tm_sec == time.tm_sec
            && (isTomorrow || made.tm_mday == time.tm_mday && made.tm_mon == time.tm_mon)
        return isSame ? Date(timeIntervalSince1970: TimeInterval(seconds)) : nil
    }
}

extension Store {
    /// - Throws: A ``Failure`` if there is an item and the user wants to keep it.
    func confirmReplacement(of key: ItemKey) throws {
        guard let old = try? backend.attributes(for: key, now: nil) else { return }
        let label = old.label.map { "\"\($0.onOneLine)\", " } ?? ""
        let item = "The item \(key.key.onOneLine) exists: \(label)changed \(old.modified.local)."
        let question = "\(item) Replace its value?"
        try Terminal.confirm(question, otherwise: "\(question) Use --yes.")
    }
}
