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
                try store.lockbox.moveObject(
                    forKey: keys.key,
                    toKey: keys.newKey,
                    toPrefix: keys.toPrefix,
                    policy: keys.policy
                )
            }
        }
    }
}
