import ArgumentParser
import Lockbox
@_spi(Extensions) import LockboxStore

struct RemoveCommand: Command {
    static let help: CommandHelp = """
        remove, rm, delete: Remove items.

        At a terminal, it asks first: there is no undo. Also removes items that are locked, expired or damaged, or that cannot be read for another reason. \
        If some keys do not exist, the other items are removed all the same. Keys are not patterns: to remove what \
        matches one, run `lockbox list 'web/*' | xargs -d '\\n' lockbox remove`, and for a prefix `lockbox clear`.

        Example: lockbox remove token old-token
        """

    @Argument(help: "The items' keys.", completion: .custom(Keys.keys))
    var keys: [String] = []

    @Option(
        help:
            "An item that cannot be read and whose key is not known, as list, verify or rotate named it. Can be repeated."
    )
    var record: [String] = []

    @Flag(name: .shortAndLong, help: "Do not ask for confirmation.")
    var yes = false

    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    func validate() throws {
        if keys.isEmpty && record.isEmpty { throw ValidationError("Missing expected argument '<keys> ...'") }
    }

    func run() throws {
        let store = try options.openStore()
        let found = try keys.filter { try isThere($0, store) }
        try confirm(found)
        for record in record { try confirm(store.record(record), store) }
        var removed: [String] = []
        for record in record {
            guard try store.backend.remove(record: store.record(record)) else {
                let done = removed.isEmpty ? "Nothing was removed." : "Removed: \(Self.list(removed))."
                throw Failure(
                    .conflict,
                    "The item \(record.onOneLine) can be read. To remove it, give its key. \(done)"
                )
            }
            removed.append(record)
        }
        // Not the others: a program may have stored one since the question.
        for key in found { try store.lockbox.removeObject(forKey: key) }
        removed = found + removed
        if !removed.isEmpty { store.tell("Removed: \(Self.list(removed))") }
        if let first = keys.first(where: { !found.contains($0) }) { throw store.missing(first) }
    }

    static let refusal = "Nothing was removed."

    private static func list(_ names: [String]) -> String { names.map(\.onOneLine).joined(separator: ", ") }

    /// A script says what it means.
    private func confirm(_ keys: [String]) throws {
        if yes || keys.isEmpty || !Terminal.isThere(STDIN_FILENO) { return }
        let question = "Remove \(Self.list(keys))? Nothing brings it back."
        try Terminal.confirm(question, otherwise: "\(question) Use --yes.", refusal: Self.refusal)
    }

    /// An item that only permissions, a link or a read error hide may be a good one.
    private func confirm(_ record: String, _ store: Store) throws {
        let parts = record.split(separator: "/").map(String.init)
        guard !yes, parts.count == 2 else { return }
        do {
            let name = RecordName(namespace: parts[0], name: parts[1])
            try store.storage.read(name, atLeast: 1, maximum: .max) { _ in }
        } catch let error as LockboxError where error.isHidden {
            let what = "\(error.advice.onOneLine) The item may be whole. \(Unreadable.repair(in: store))"
            let otherwise = "\(what) Use --yes to remove it all the same. Nothing was removed."
            let question = "\(what) Remove it all the same?"
            try Terminal.confirm(question, otherwise: otherwise, refusal: Self.refusal)
        }
    }

    private func isThere(_ key: String, _ store: Store) throws -> Bool {
        let item = try ItemKey(prefix: store.prefix, key: key)
        do { return try store.backend.attributes(for: item, now: nil) != nil } catch let error as LockboxError
            where ![.notReachable, .accessDenied, .storeReplaced, .lockTimeout].contains(error.code)
        {
            // The item cannot be read, unless the whole store cannot.
            return try store.backend.location(of: item) != nil
        }
    }
}

struct ClearCommand: Command {
    static let help: CommandHelp = """
        clear: Remove all items with the prefix.

        Asks for confirmation first. Without a terminal, --yes is needed. A whole store: delete the folder that `lockbox status` names. \
        With a passcode, `lockbox lock --all` before, and `lockbox accept-restored` afterwards.

        Example: lockbox clear --prefix com.example.app
        """

    @Flag(name: .shortAndLong, help: "Do not ask for confirmation.")
    var yes = false

    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    func run() throws {
        let store = try options.openStore()
        // Expired items and those that cannot be read go too.
        let list = try store.lockbox.list(includingExpired: true)
        let count = list.items.count + list.unreadable.count
        let items = "\(count) \(count == 1 ? "item" : "items") with the prefix \(store.prefix.onOneLine)"
        let otherwise = "There is no terminal to ask at: use --yes to remove \(items). Nothing was removed."
        let refusal = RemoveCommand.refusal
        if !yes { try Terminal.confirm("Remove \(items)?", otherwise: otherwise, refusal: refusal) }
        try store.lockbox.removeAllObjects()
        store.tell("Items removed: \(count)\(Self.rest(of: store))")
    }

    private static func rest(of store: Store) -> String {
        let count = (try? StatusCommand.prefixes(store.backend).0)?.values.reduce(0, +) ?? 0
        return count == 0 ? "" : ". Items under other prefixes stay: \(count). `lockbox status` shows them."
    }
}
