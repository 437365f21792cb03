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
    var keys: [String]

    @OptionGroup var options: StoreOptions

    func run() throws {
        let store = try options.store()
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
        } catch LockboxError.corrupt, LockboxError.authenticationFailed {
            return true
        }
    }
}
