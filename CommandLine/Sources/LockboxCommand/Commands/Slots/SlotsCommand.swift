import ArgumentParser
import Lockbox

struct SlotsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "slots",
        abstract: "List, add and remove what unlocks the store.",
        discussion: """
            A store is unlocked by its passcode, by recovery codes and by keys: these are its slots. Without \
            any, its device key alone opens it.

            Example: lockbox slots
            """,
        subcommands: [List.self, Add.self, Remove.self],
        defaultSubcommand: List.self
    )

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Print the slots.",
            discussion: """
                Needs no passcode.

                Example: lockbox slots list --json
                """
        )

        @Flag(help: "Print a JSON array.")
        var json = false

        @OptionGroup var options: StoreOptions

        func run() throws {
            let store = try options.store()
            let slots = try store.backend.slots.map(SlotDescription.init)
            if json { return try Output.json(slots) }
            if slots.isEmpty { return store.say("The store has no slots: its device key alone opens it.") }
            try SlotDescription.print(slots)
        }
    }

    struct Add: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Add a slot.",
            discussion: """
                For a recovery code, see `lockbox passcode recovery`; for a passcode, `lockbox passcode set`.

                Example: lockbox slots add key --key-file /media/usb/key --label "the web server"
                """,
            subcommands: [AddKeyCommand.self, AddTPMCommand.self, AddFIDO2Command.self]
        )
    }

    struct Remove: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Remove a slot.",
            discussion: """
                Creates new keys and reseals every item, so that the slot's secret cannot open items written \
                afterwards.

                Example: lockbox slots remove 4f1c
                """
        )

        @Argument(
            help: "The slot's ID, or the first digits of it, at least four.",
            completion: .custom(Keys.slots)
        )
        var id: String

        @OptionGroup var resealing: ResealingOptions
        @OptionGroup var secret: UnlockOptions
        @OptionGroup var options: StoreOptions

        func validate() throws {
            if id.wholeMatch(of: /[0-9a-fA-F]{4,32}/) == nil {
                throw ValidationError(
                    "A slot's ID has 4 to 32 hexadecimal digits. `lockbox slots` lists them."
                )
            }
        }

        func run() throws {
            let store = try options.store(unlockedBy: secret.secret)
            let slot = try SlotsCommand.slot(id, of: store.backend.slots)
            if slot.kind == .passcode {
                throw Failure(
                    .conflict,
                    "This slot is the passcode. Use `lockbox passcode remove`. Nothing was changed."
                )
            }
            try store.checkOwner()
            try store.makingKeys("slots", later: resealing.later) {
                try store.backend.removeSlot(slot.id, resealing: !resealing.later, progress: $0)
            }
            try store.report("The slot \(slot.id) (\(slot.kind)) is removed.")
            try store.sayIfOpen()
        }
    }

    /// The only slot whose ID begins with these digits.
    static func slot(_ digits: String, of slots: [UnlockSlot]) throws -> UnlockSlot {
        let found = slots.filter { $0.id.hasPrefix(digits.lowercased()) }
        guard let slot = found.first else { throw LockboxError.slotNotFound(slot: digits) }
        guard found.count == 1 else {
            throw Failure(
                .conflict,
                "\(found.count) slots have IDs that begin with \(digits). Give more digits. Nothing was changed."
            )
        }
        return slot
    }
}
