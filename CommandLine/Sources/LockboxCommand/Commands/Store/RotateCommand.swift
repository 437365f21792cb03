import ArgumentParser
import Lockbox

struct RotateCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rotate",
        abstract: "Create new keys, and reseal every item with them.",
        discussion: """
            Use it when a passcode or a device key may have leaked. Other programs can keep reading and \
            writing. If it is interrupted, run it again. A device key that is kept in the store is replaced; one \
            that is kept elsewhere only with --new-device-key-file. If that is interrupted, give both files with \
            --device-key-file, the new one first.

            A cluster keeps replaced values until it is compacted. --compact compacts the whole cluster, for all its \
            users. Older values then disappear from its history, and from its files once each member is \
            defragmented.

            Example: lockbox rotate
            """
    )

    @Option(
        help: "From now on, use the device key in this file: 32 to 4096 random bytes.",
        completion: .file()
    )
    var newDeviceKeyFile: String?

    @Flag(help: "Afterwards, compact the store's cluster.")
    var compact = false

    @OptionGroup var secret: UnlockOptions

    @OptionGroup var options: StoreOptions

    func validate() throws {
        if newDeviceKeyFile == "" { throw ValidationError("--new-device-key-file is empty. Give a file.") }
    }

    func run() throws {
        let store = try options.store(unlockedBy: secret.secret)
        let isThere = try store.backend.status() != nil
        if !isThere, newDeviceKeyFile != nil {
            throw Failure(.noSuchItem, "There is no store yet. Create it with --device-key-file.")
        }
        if compact, !store.backend.storage.isCluster {
            throw Failure(.usage, "--compact is for a store in a cluster. Files have no history.")
        }
        try store.openIfLocked()
        var report: RotationReport?
        // Also if an item could not be resealed.
        defer { if isThere, let report { store.say(deviceKey(report)) } }
        try store.makingKeys("rotate") { progress in
            let result = try store.unlocking {
                try store.backend.rotateKeys(
                    newDeviceKey: newDeviceKeyFile.map { .file($0) },
                    progress: progress
                )
            }
            report = result
            return result
        }
        if compact, isThere {
            try store.backend.storage.compact()
            store.say(
                "The cluster was compacted. Older values stay in its files until each member is defragmented."
            )
        }
    }

    private func deviceKey(_ report: RotationReport) -> String {
        guard report.hasNewDeviceKey else {
            return newDeviceKeyFile == nil
                ? "The device key is kept elsewhere and is the same as before. Replace it with --new-device-key-file."
                : "The device key is the same as before: the new file has the same bytes."
        }
        guard let newDeviceKeyFile else { return "The device key is new." }
        return
            "The device key is new. From now on, use --device-key-file \(newDeviceKeyFile.onOneLine)."
    }
}
