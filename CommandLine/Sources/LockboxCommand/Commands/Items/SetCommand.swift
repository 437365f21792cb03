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
