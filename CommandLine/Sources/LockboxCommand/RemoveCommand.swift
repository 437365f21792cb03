import ArgumentParser
import Lockbox

struct RemoveCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "remove",
        abstract: "Remove items.",
        discussion: """
            Also removes items that are locked, expired or damaged. If some keys do not exist, the other \
            items are removed all the same.

            Example: lockbox remove token old-token
            """
    )

    @Argument(help: "The items' keys.", completion: .custom(Keys.keys))
    var keys: [String] = []

    @Option(
        help:
            "An item that cannot be read and whose key is not known, as list, verify or rotate named it. Can be repeated."
    )
    var record: [String] = []

    @OptionGroup var options: StoreOptions

    func validate() throws {
        if keys.isEmpty && record.isEmpty { throw ValidationError("Missing expected argument '<keys> ...'") }
    }

    func run() throws {
        let store = try options.store()
        for record in record { try store.backend.remove(record: store.record(record)) }
        var missing: [String] = []
        for key in keys {
            if try !isThere(key, store) { missing.append(key) }
            try store.lockbox.removeObject(forKey: key)
        }
        if let first = missing.first { throw store.missing(first) }
    }

    private func isThere(_ key: String, _ store: Store) throws -> Bool {
        let item = try ItemKey(prefix: store.prefix, key: key)
        do {
            return try store.backend.attributes(for: item, now: nil) != nil
        } catch let error as LockboxError where error.isAboutTheItem {
            return true
        }
    }
}

extension LockboxError {
    /// Whether the item exists and cannot be read.
    fileprivate var isAboutTheItem: Bool {
        [.corrupt, .authenticationFailed, .unsafePermissions, .unsupportedVersion].contains(code)
    }
}
