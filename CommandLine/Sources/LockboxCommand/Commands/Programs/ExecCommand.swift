import ArgumentParser
import Lockbox

struct ExecCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "exec",
        abstract: "Run a command with items as environment variables.",
        discussion: """
            A variable's name is the item's key in upper case, with _ for everything except letters and \
            digits: web-shop/token becomes WEB_SHOP_TOKEN. Names such as PATH and LD_PRELOAD, which control \
            what programs run, are refused unless they are given with --allow-variable. The command replaces \
            lockbox, so signals and the exit status are its own. It is looked up in the PATH that lockbox \
            was started with. The exit status is 127 if there is no such command, 126 if it cannot be run, \
            and 1 if there is nothing to pass: a missing item, or no item with the prefix.

            Example: lockbox exec --only token -- ./deploy
            """
    )

    @Option(
        parsing: .upToNextOption,
        help: "Only these items. (default: all items with the prefix)",
        completion: .custom(Keys.keys)
    )
    var only: [String] = []

    @Option(
        help: ArgumentHelp(
            "Pass this variable although it controls what programs run. Can be repeated.",
            valueName: "name"
        )
    )
    var allowVariable: [String] = []

    @Argument(parsing: .postTerminator, help: "The command and its arguments.")
    var command: [String]

    @OptionGroup var secret: UnlockOptions
    @OptionGroup var options: StoreOptions

    func validate() throws {
        if command.isEmpty { throw ValidationError("Give the command after --.") }
    }

    func run() throws {
        let store = try options.store(unlockedBy: secret.secret)
        let now = Date()
        let variables = try variables(only.isEmpty ? keys(store, now) : Set(only).sorted())
        let values = try store.unlocking {
            try variables.map { name, key in (name, key, try value(key, store, now)) }
        }
        let search = ProgramSearch()
        // The command must not inherit these.
        unsetenv("LOCKBOX_PASSCODE")
        if let descriptor = options.passcodeFd, descriptor > STDERR_FILENO { close(descriptor) }
        for (name, key, value) in values { try Self.set(name, key, value) }
        try replaceProcess(search)
    }

    private static func set(_ name: String, _ key: String, _ value: Data) throws {
        if value.contains(0) {
            throw Failure(
                .conflict,
                "The value for the key \(String(reflecting: key)) contains a NUL, which a variable cannot hold."
            )
        }
        let text = value.map { CChar(bitPattern: $0) } + [0]
        guard setenv(name, text, 1) == 0 else {
            throw Failure(.inputOutput, "Setting \(name) failed: \(String(cString: strerror(errno))).")
        }
    }

    /// All keys with the prefix, without those of expired items, which are named. An item that cannot be read is an error, because
    /// a missing variable would be noticed too late. So is a prefix without items, which is probably a typing error.
    private func keys(_ store: Store, _ now: Date) throws -> [String] {
        let all = try store.backend.attributes(prefix: store.prefix, now: nil)
        let expired = all.filter { $0.value.isExpired(at: now) }.keys
        if all.count == expired.count { throw expired.first.map { store.expired($0.key) } ?? store.empty }
        for key in expired.map(\.key).sorted() { store.say("\(store.expired(key).message) It is left out.") }
        return all.keys.filter { !expired.contains($0) }.map(\.key).sorted()
    }

    private func value(_ key: String, _ store: Store, _ now: Date) throws -> Data {
        let item = try ItemKey(prefix: store.prefix, key: key)
        if let value = try store.backend.value(for: item, now: now) { return try value.plain(key) }
        throw try store.backend.attributes(for: item, now: nil) == nil
            ? store.missing(key) : store.expired(key)
    }

    private func variables(_ keys: [String]) throws -> [(name: String, key: String)] {
        var keyOfName: [String: String] = [:]
        return try keys.map { key in
            if let refusal = VariableName.refusal(ofKey: key, allowed: allowVariable) {
                throw Failure(.conflict, "The key \(String(reflecting: key)) was refused: \(refusal).")
            }
            let name = VariableName.of(key: key)
            if let other = keyOfName.updateValue(key, forKey: name) {
                throw Failure(
                    .conflict,
                    "The keys \(String(reflecting: other)) and \(String(reflecting: key)) would both become \(name). "
                        + "Give --only with one of them."
                )
            }
            return (name, key)
        }
    }

    private func replaceProcess(_ search: ProgramSearch) throws -> Never {
        ProcessMemory.restoreCoreLimit()
        let code = search.replaceProcess(RawArguments.last(command.count))
        Output.note("lockbox: \(command[0].onOneLine) cannot be run: \(String(cString: strerror(code))).")
        throw ExitCode(code == ENOENT ? 127 : 126)
    }
}
