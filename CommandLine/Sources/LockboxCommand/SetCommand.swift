import ArgumentParser
import Lockbox

struct SetCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "set",
        abstract: "Store a value, in place of what the key held before.",
        discussion: """
            The value is what standard input holds, or is asked for at a terminal. It is text, without the newline at the \
            end if that is its only one; with --data it is kept byte for byte. An empty one is refused, as it may come from a \
            command that failed.

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

    @Option(name: .customLong("class"), help: "When the value can be read.")
    var itemClass = ItemClass.whenUnlocked

    @Option(
        help: "When it goes: a span such as 8h or 7d, or a date such as 2030-12-24 or 2030-12-24T12:00:00Z."
    )
    var expires: String?

    @Option(help: "A short text for people. Not for secrets.")
    var label: String?

    @Option(help: "A longer text for people. Not for secrets.")
    var comment: String?

    @Flag(help: "Store an empty value, too.")
    var allowEmpty = false

    @Flag(help: "Fail if there is such an item already.")
    var add = false

    @Flag(help: "Fail if there is no such item yet.")
    var update = false

    @OptionGroup var options: StoreOptions

    func validate() throws {
        // Anything said of its value would show it once more.
        if !rest.isEmpty {
            throw ValidationError(
                "A value is never an argument, where others can see it: give it on standard input. If that is none, an option before it is misspelt."
            )
        }
        if json && data { throw ValidationError("Give --json or --data, not both.") }
        if add && update { throw ValidationError("Give --add or --update, not both.") }
        if options.passcodeFd == STDIN_FILENO {
            throw ValidationError(
                "Standard input has the value, so --passcode-fd must be another descriptor."
            )
        }
    }

    func run() throws {
        let store = try options.store()
        let now = Date()
        let item = try StoredItem(
            key: ItemKey(prefix: store.prefix, key: key),
            value: value(),
            accessibility: itemClass.accessibility,
            modified: now,
            expires: expires.map { try expiry($0, now) },
            label: label,
            comment: comment
        )
        try store.unlocking {
            try store.backend.write(item, policy: add ? .addOnly : update ? .updateOnly : .replace)
        }
        store.note("stored \(item.value)")
    }

    private func expiry(_ text: String, _ now: Date) throws -> Date {
        if let date = Lifetime.end(text, now: now), date > now { return date }
        throw Failure(
            .usage,
            "--expires takes a span such as 8h or 7d, or a date to come such as 2030-12-24."
        )
    }

    private func value() throws -> ArchivedValue {
        let input = try input()
        if json { return try ArchivedValue(data: Self.checked(json: input), format: .json) }
        if data {
            try checkIsMeant(isEmpty: input.isEmpty)
            return try ArchivedValue(data: input, format: .data)
        }
        guard let text = String(validating: input, as: UTF8.self)?.withoutOnlyNewline else {
            throw Failure(.usage, "Standard input is not text in UTF-8. Give --data to store bytes.")
        }
        try checkIsMeant(isEmpty: text.isEmpty)
        return try ArchivedValue(data: JSONValueCoder().encode(text), format: .json)
    }

    private func input() throws -> Data {
        guard Terminal.isThere(STDIN_FILENO) else { return try Input.all() }
        let typed = try Terminal.secret(
            "Value: ",
            otherwise: "There is no terminal to ask for the value at."
        )
        return Data(typed.utf8)
    }

    /// The command before a pipe writes nothing if it fails: that must not cost the value that is there.
    private func checkIsMeant(isEmpty: Bool) throws {
        if isEmpty, !allowEmpty {
            throw Failure(
                .usage,
                "The value is empty. Nothing was changed. Give --allow-empty if it is to be so."
            )
        }
    }

    private static func checked(json: Data) throws -> Data {
        if json.isEmpty {
            throw Failure(.usage, "The value is empty, which is no JSON. Nothing was changed.")
        }
        guard JSONValue.isStrict(json) else {
            throw Failure(.usage, "The value is not JSON in UTF-8. Leave out --json to store text.")
        }
        return json
    }
}

extension String {
    /// Without the newline that `echo` adds to a single line. A text of several lines, such as a PEM file, keeps its own.
    fileprivate var withoutOnlyNewline: String {
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
