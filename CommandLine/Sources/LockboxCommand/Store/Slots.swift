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
        subcommands: [List.self, AddSlotCommand.self, Remove.self],
        defaultSubcommand: List.self
    )

    struct List: Command {
        static let help: CommandHelp = """
            list: Print the slots.

            Needs no passcode, but checks one that is given.

            Example: lockbox slots list --json
            """

        @Flag(help: "Print a JSON array.")
        var json = false

        @OptionGroup(title: StoreHelp.title) var options: StoreOptions

        func run() throws {
            let store = try options.openStore()
            let slots = try store.status().slots.map(SlotDescription.init)
            if json { return try Output.json(slots) }
            if slots.isEmpty { return store.say("The store has no slots: its device key alone opens it.") }
            try SlotDescription.print(slots)
        }
    }

    struct Remove: Command {
        static let help: CommandHelp = """
            remove: Remove a slot.

            Creates new keys and reseals every item, so that the slot's secret cannot open items written \
            afterwards.

            Example: lockbox slots remove 4f1c
            """

        @Argument(
            help: "The slot's ID, or the first digits of it, at least four.",
            completion: .custom(Keys.slots)
        )
        var id: String

        @OptionGroup var resealing: ResealingOptions
        @OptionGroup(title: StoreHelp.title) var secret: UnlockOptions
        @OptionGroup(title: StoreHelp.title) var options: StoreOptions

        func validate() throws {
            if id.wholeMatch(of: /[0-9a-fA-F]{4,32}/) == nil {
                throw ValidationError(
                    "A slot's ID has 4 to 32 hexadecimal digits. `lockbox slots` lists them."
                )
            }
        }

        func run() throws {
            let store = try options.store(unlockedBy: secret.secret)
            let slot = try SlotsCommand.slot(id, of: store.status().slots)
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

/// A slot as it is printed. Documented: fields may be added, but never removed.
struct SlotDescription: Encodable {
    let id: String
    let kind: String
    let label: String
    let created: Date
    let opens: String
    let isOlderThanRevocation: Bool

    init(_ slot: UnlockSlot) {
        id = slot.id
        kind = slot.kind.description
        label = slot.label
        created = slot.created
        opens = slot.opensAllClasses ? "all" : "afterFirstUnlock"
        isOlderThanRevocation = slot.isOlderThanRevocation
    }

    /// What is said of a slot that is older than the last revocation, and why that matters.
    static let isOld = "is older than the last secret that was changed or removed"
    static let danger =
        "who knew that one can still forge a store for it: replace the slot, with a new secret"

    static func print(_ slots: [SlotDescription]) throws {
        // Enough of an ID to tell slots apart. JSON has all of it.
        let rows = slots.map {
            [
                String($0.id.prefix(12)), $0.kind, $0.created.local, $0.opens,
                $0.label.isEmpty ? "-" : $0.label,
            ]
        }
        try Table(header: ["SLOT", "KIND", "CREATED", "OPENS", "LABEL"], rows: rows).print()
        for slot in slots where slot.isOlderThanRevocation {
            Output.note("lockbox: slot \(slot.id.prefix(12)) \(Self.isOld): \(Self.danger)")
        }
    }
}

struct AddSlotCommand: Command {
    static let help: CommandHelp = """
        add: Add a slot: a key, this machine's TPM 2.0, or a FIDO2 security key.

        A key in a file or a systemd credential is for a service that starts without a person: at least 32 random bytes, and not the \
        device key. A TPM keeps a secret that only it can open, and counts wrong PINs; without a PIN, everyone who may use the TPM of this \
        machine opens the slot. A security key needs hmac-secret; it has to be touched twice now, and once for each unlock, and its PIN is \
        asked for if it has one.

        Without --all-classes a slot opens the afterFirstUnlock classes only. The store must have a recovery code, because each of \
        these can be lost: see `lockbox passcode recovery`.

        Example: lockbox slots add key --key-file /media/usb/key --label "the web server"
        """

    enum Kind: String, CaseIterable, ExpressibleByArgument { case key, tpm, fido2 }

    @Argument(help: "What opens the slot.")
    var kind: Kind

    @Option(file: "The file with the key.")
    var keyFile: String?

    @Option(help: "The systemd credential with the key.")
    var keyCredential: String?

    @Flag(help: "Add the TPM without a PIN.")
    var withoutPin = false

    @Option(help: "A name, shown by `lockbox slots`.")
    var label: String

    @Flag(help: "The slot opens all classes.")
    var allClasses = false

    @OptionGroup var resealing: ResealingOptions
    @OptionGroup(title: StoreHelp.title) var hardware: HardwareOptions
    @OptionGroup(title: StoreHelp.title) var recovery: RecoveryOptions
    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    func validate() throws {
        let keys = [keyFile, keyCredential].count { $0 != nil }
        if kind == .key ? keys != 1 : keys != 0 {
            throw ValidationError(
                "A key is in a file or a credential: give one of --key-file and --key-credential."
            )
        }
        if withoutPin, kind != .tpm || hardware.pinFile != nil {
            throw ValidationError("--without-pin is for a TPM, and not with --pin-file.")
        }
    }

    func run() throws {
        let store = try options.store(unlockedBy: recovery.secret)
        try store.checkOwner()
        let method = try method()
        try store.makingKeys("slots", later: resealing.later) { progress in
            try SecretInput.namingKey {
                try store.backend.addSlot(
                    method,
                    label: label,
                    opensAllClasses: allClasses,
                    resealing: !resealing.later,
                    progress: progress
                )
            }
        }
        let name = [.key: "key", .tpm: "TPM", .fido2: "security key"][kind]!
        try store.report("The \(name) unlocks \(allClasses ? "all" : "the afterFirstUnlock") classes.")
    }

    private func method() throws -> any UnlockMethod {
        switch kind {
        case .key: return .key(keyFile.map { .file($0) } ?? .credential(keyCredential!))
        case .tpm:
            let file = hardware.pinFile
            let pin = try withoutPin ? nil : SecretInput.new("PIN", file: file, option: "--pin-file")
            return try hardware.tpm.method(pin: pin)
        case .fido2:
            let key = hardware.securityKey
            let method = try key.method(pin: key.presentPIN)
            key.announce()
            return method
        }
    }
}
