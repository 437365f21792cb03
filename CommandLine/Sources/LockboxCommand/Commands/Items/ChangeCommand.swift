import ArgumentParser
import Lockbox

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
