import ArgumentParser
import Lockbox

struct MoveCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "move",
        abstract: "Move an item to another key.",
        discussion: """
            Value, attributes and dates stay as they are. The new item is safely stored before the old one is \
            removed. Without --replace, the command fails if the new key already has an item.

            Example: lockbox move token web-shop/token
            """
    )

    @OptionGroup var keys: TwoKeys

    @OptionGroup var options: StoreOptions

    func run() throws {
        let store = try options.store()
        try Failure.advising("Use --replace to overwrite it.") {
            try store.unlocking {
                let key = try ItemKey(prefix: store.prefix, key: keys.key)
                let newKey = try ItemKey(prefix: keys.toPrefix ?? store.prefix, key: keys.newKey)
                // An expired item is moved too, and stays expired.
                let isExpired =
                    try store.backend.attributes(for: key, now: nil)?.isExpired(at: Date()) ?? false
                let now = isExpired ? Date.distantPast : Date()
                try store.backend.move(key, to: newKey, policy: keys.policy, now: now)
            }
        }
    }
}
