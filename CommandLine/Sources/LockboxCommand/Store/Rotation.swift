import ArgumentParser
import Lockbox

struct RotateCommand: Command {
    static let help: CommandHelp = """
        rotate: Create new keys, and reseal every item with them.

        Use it when a passcode or a device key may have leaked. Other programs can keep reading and \
        writing. If it is interrupted, run it again. A device key that is kept in the store is replaced; one \
        that is kept elsewhere only with --new-device-key-file. If that is interrupted, give both files with \
        --device-key-file, the new one first.

        An item that could not be read when the keys were replaced does not open any more, because an attacker with \
        the former keys could have made it. If you know that it is yours, name it with --accept, as list, \
        verify or rotate named it.

        A cluster keeps replaced values until it is compacted. --compact compacts the whole cluster, for all its \
        users. Older values then disappear from its history, and from its files once each member is \
        defragmented.

        Example: lockbox rotate
        """

    @Option(help: ArgumentHelp("Accept this item, which is sealed with former keys.", valueName: "record"))
    var accept: [String] = []

    @Option(file: "From now on, use the device key in this file: 32 to 4096 random bytes.")
    var newDeviceKeyFile: String?

    @Flag(help: "Afterwards, compact the store's cluster.")
    var compact = false

    @OptionGroup(title: StoreHelp.title) var secret: UnlockOptions

    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    func validate() throws {
        if newDeviceKeyFile == "" { throw ValidationError("--new-device-key-file is empty. Give a file.") }
    }

    func run() throws {
        let store = try options.store(unlockedBy: secret.secret)
        if compact, store.cluster == nil {
            throw Failure(.usage, "--compact is for a store in a cluster. Files have no history.")
        }
        try store.openIfLocked()
        for record in accept { try acceptItem(record, in: store) }
        var report: RotationReport?
        // Also if an item could not be resealed.
        defer { if let report { store.say(deviceKey(report)) } }
        try store.makingKeys("rotate") { progress in
            let new = newDeviceKeyFile.map { DeviceKeySource.file($0) }
            let result = try store.unlocking {
                try store.backend.rotateKeys(newDeviceKey: new, progress: progress)
            }
            report = result
            return result
        }
        if compact, let cluster = store.cluster {
            try cluster.compact()
            store.say(
                "The cluster was compacted. Older values stay in its files until each member is defragmented."
            )
        }
    }

    private func acceptItem(_ record: String, in store: Store) throws {
        do {
            let item = try store.unlocking { try store.backend.acceptItem(record: store.record(record)) }
            try store.report(
                "accepted: \(item.key.prefix.onOneLine) \(item.key.key.onOneLine), \(item.attributes.accessibility), of "
                    + "\(item.attributes.modified.local). An attacker with the former keys could have made it."
            )
        } catch let error as LockboxError where error.isHidden {
            throw Failure(error.status, "\(error.advice) If it is not yours, \(store.setAside).")
        }
    }

    private func deviceKey(_ report: RotationReport) -> String {
        guard report.hasNewDeviceKey else {
            return newDeviceKeyFile == nil
                ? "The device key is kept elsewhere and is the same as before. Replace it with --new-device-key-file."
                : "The device key is the same as before: the new file has the same bytes."
        }
        let use = newDeviceKeyFile.map { " From now on, use --device-key-file \($0.onOneLine)." } ?? ""
        return "The device key is new.\(use)"
    }
}

/// The option of all changes that make new keys and reseal every item.
struct ResealingOptions: ParsableArguments {
    @Flag(help: "Do not reseal the items now, but with the next `lockbox rotate`.")
    var later = false
}

extension Store {
    /// Runs a call that makes new keys, shows its progress, and prints what has become of the items.
    func makingKeys(_ work: String, later: Bool = false, _ body: (Progress) throws -> RotationReport) throws {
        let result = try showingProgress(of: work, body)
        if later {
            try report(
                "The items are not resealed. Until `lockbox rotate`, the old keys open them."
            )
            return try checkIsComplete(result)
        }
        try report("items resealed: \(result.resealedCount)")
        try checkIsComplete(result)
    }

    /// Names the records that could not be resealed.
    private func checkIsComplete(_ result: RotationReport) throws {
        if result.isComplete { return }
        Unreadable(result.findings).note()
        let problem =
            if let postponement = result.postponement, postponement != .requested {
                "The new keys are in use, but not all items could be resealed: the old keys still open the rest. "
                    + "Run `lockbox rotate`."
            } else if result.unrevokedCount == 0, result.postponement == nil {
                "Damaged items: \(result.unreadableItems.count). The old keys are gone. Restore these items from a backup, or "
                    + "use `lockbox remove --record` or `lockbox quarantine`."
            } else {
                "Items that could not be read: \(result.unreadableItems.count). The old keys are kept for them, but open nothing by "
                    + "themselves. Make these items readable, and accept by name those that are yours: `lockbox rotate --accept`. For "
                    + "the others, also a link or a folder in an item's place, \(setAside). Then run `lockbox rotate` again."
            }
        let isFailed = result.postponement == .failed
        throw Failure(
            isFailed ? result.unreadableItems.first?.error.status ?? .inputOutput : .damaged,
            problem
        )
    }

    /// The call that takes an item out of the store, whatever is in its place.
    fileprivate var setAside: String { "use `lockbox \(cluster == nil ? "quarantine" : "remove --record")`" }
}
