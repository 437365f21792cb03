import ArgumentParser
import Lockbox

struct ExportCommand: Command {
    static let help: CommandHelp = """
        export: Write a backup, which age can decrypt too.

        The backup is encrypted to the public keys that are given, otherwise to the one of `lockbox backup-key`, \
        otherwise with a passphrase. It can be imported into any store. `age -d FILE` prints it as JSON in lines, with \
        prefix, key and value, which is base64 if encoding says so: `age -d FILE | jq -r 'select(.key == "token").value'`. \
        Items of the ThisDeviceOnly classes are left out, and listed. Without --prefix, items of all prefixes are \
        included. An earlier backup that has an item which the new one lacks, or that cannot be read, stays beside \
        it as FILE.earlier-1.

        Example: lockbox export /media/usb/lockbox.age
        """

    @Argument(
        help: "The file to write, or - for standard output. Replaces an earlier backup, but no other file.",
        completion: .file()
    )
    var file: String

    @Option(
        name: .customLong("recipient"),
        help: .init("Encrypt to this public key of age. Can be repeated.", valueName: "age1…")
    )
    var recipients: [String] = []

    @Option(file: "Encrypt to the public keys in this file, one in each line.")
    var recipientsFile: String?

    @Option(file: "Read the passphrase from this file instead of asking.")
    var passphraseFile: String?

    @Option(help: "The cost of each guess at the passphrase: scrypt with 2 to this power KiB of memory.")
    var workFactor = 18

    @Flag(help: "Replace an earlier backup whatever it has.")
    var replace = false

    @OptionGroup(title: StoreHelp.title) var secret: UnlockOptions
    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    func validate() throws {
        if !(1...22).contains(workFactor) { throw ValidationError("--work-factor takes 1 to 22.") }
        if passphraseFile != nil, !recipients.isEmpty || recipientsFile != nil {
            throw ValidationError("Give a passphrase or recipients, not both.")
        }
    }

    func run() throws {
        let store = try options.store(unlockedBy: secret.secret)
        try store.openIfLocked()
        if file == "-", Terminal.isThere(STDOUT_FILENO) {
            throw Failure(.usage, "A backup is not text for a terminal. Name a file, or write to a pipe.")
        }
        if file != "-", Self.isInside(file, store.location) {
            throw Failure(
                .usage,
                "A backup in the store's own folder would be lost with it. Name another folder."
            )
        }
        let keys = try keys(store)
        let report = try store.showingProgress(of: "export") { try export(store, to: keys, $0) }
        func say(_ text: String) throws { if file == "-" { store.say(text) } else { try store.report(text) } }
        for key in report.excludedKeys {
            try say("left out because it stays on this device: \(key.text)")
        }
        if let kept = report.keptBackup {
            try say("the earlier backup has more, or cannot be read, and is now \(kept.onOneLine)")
        }
        for key in keys ?? [] { try say("encrypted to \(key)") }
        try say("items in the backup: \(report.exportedCount)")
        try Unreadable(report.findings).fail(advice: "They are not in the backup.")
    }

    private static func isInside(_ file: String, _ folder: String) -> Bool {
        let end = file.utf8.lastIndex(of: UInt8(ascii: "/"))
        guard let folder = realPath(folder), let parent = realPath(end.map { String(file[...$0]) } ?? ".")
        else { return false }
        return "\(parent)/".hasPrefix("\(folder)/")
    }

    /// Nil if it is to be encrypted with a passphrase.
    private func keys(_ store: Store) throws -> [String]? {
        if passphraseFile != nil { return nil }
        if let recipientsFile { return try recipients + Input.lines(ofFile: recipientsFile).map(\.text) }
        if !recipients.isEmpty { return recipients }
        do {
            let kept = try store.backend.backupRecipients()
            return kept.isEmpty ? nil : kept
        } catch let error as LockboxError
            where [.requirementNotMet, .corrupt, .authenticationFailed].contains(error.code)
        {
            throw Failure(
                error.status,
                "The public keys that are kept for backups cannot be trusted: \(error.description.onOneLine) "
                    + "Run `lockbox backup-key` to store yours again, or give --recipient."
            )
        }
    }

    private func newPassphrase() throws -> PasscodeSource {
        let option = "--passphrase-file or --recipient, or run `lockbox backup-key` once"
        return try SecretInput.new("passphrase", file: passphraseFile, option: option)
    }

    private func export(_ store: Store, to keys: [String]?, _ progress: Store.Progress) throws -> ExportReport
    {
        let recipients: BackupRecipients =
            if let keys { .publicKeys(keys) } else {
                try .passphrase(newPassphrase(), workFactor: workFactor)
            }
        return try SecretInput.naming(keys == nil ? "passphrase" : "recipient") {
            try store.backend.exportBackup(
                to: file,
                for: recipients,
                prefix: options.prefix,
                replacing: replace,
                progress: progress
            )
        }
    }
}

struct BackupKeyCommand: Command {
    static let help: CommandHelp = """
        backup-key: Make a key for backups, which need no secret from then on.

        The private key is shown once, at the terminal, and has to be typed back. Whoever has it opens the backups; \
        the store keeps only the public key. For scripts: --output-fd receives the private key. --recipient keeps a \
        public key whose private key you have already, --show prints the one that is kept, and --remove forgets it. \
        Every item is sealed with new keys then, so that no earlier public key can be put back.

        Example: lockbox backup-key && lockbox export lockbox.age
        """

    @Option(
        name: .customLong("recipient"),
        help: .init("Keep this public key of age instead of making one. Can be repeated.", valueName: "age1…")
    )
    var recipients: [String] = []

    @Flag(help: "Print the public keys that are kept.")
    var show = false

    @Flag(help: "Forget the public keys that are kept.")
    var remove = false

    @Option(help: "Write the private key to this open file descriptor instead of the terminal.")
    var outputFd: Int32?

    @OptionGroup(title: StoreHelp.title) var secret: UnlockOptions
    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    func validate() throws {
        if [!recipients.isEmpty, show, remove, outputFd != nil].count(where: { $0 }) > 1 {
            throw ValidationError("Give one of --recipient, --show, --remove and --output-fd.")
        }
    }

    func run() throws {
        let store = try options.store(unlockedBy: secret.secret)
        if show {
            let keys = try store.unlocking { try store.backend.backupRecipients() }
            if keys.isEmpty {
                throw Failure(.noSuchItem, "The store has no key for backups. Run `lockbox backup-key`.")
            }
            for key in keys { try Output.line(key) }
            return
        }
        if !remove, recipients.isEmpty, outputFd == nil {
            try Terminal.checkCanShow("key", else: "--output-fd or --recipient")
        }
        // Whoever finds an unlocked terminal must not receive the next backup.
        try store.checkOwner()
        if remove {
            try store.backend.setBackupRecipients([])
            return try store.report("The public keys are forgotten. Earlier backups open as before.")
        }
        let keys = try recipients.isEmpty ? [newKey()] : recipients
        try SecretInput.naming("recipient") { try store.backend.setBackupRecipients(keys) }
        for key in keys { try store.report("Backups are encrypted to \(key) from now on.") }
    }

    /// Shows a private key, and returns its public key.
    private func newKey() throws -> String {
        let key = BackupKey()
        if let outputFd {
            try Output.secretLine(key.privateKey, to: outputFd)
            return key.publicKey
        }
        let isSame = try Terminal.showOnce("private key", key.privateKey) {
            String(decoding: $0.bytes, as: UTF8.self).uppercased() == key.privateKey
        }.isSame
        if isSame { return key.publicKey }
        throw Failure(.locked, "The private key was not typed back. Nothing was changed.")
    }
}

struct ImportCommand: Command {
    static let help: CommandHelp = """
        import: Import a backup into this store.

        Nothing is written before the whole file has been authenticated. If it is interrupted, it can be \
        run again. A damaged item in the store is replaced. If its file is a link or has unsafe permissions, it \
        is first moved to quarantine. A backup is not signed: anybody who knows a public key can make one for it. \
        --dry-run says what it would change.

        Example: lockbox import /media/usb/lockbox.age --identity-file key.txt
        """

    /// The treatment of a different item that already exists.
    enum Existing: String, CaseIterable, ExpressibleByArgument {
        case keep, replace, fail

        var policy: ExistingItemPolicy { ExistingItemPolicy(rawValue: rawValue)! }

        static var allValueDescriptions: [String: String] {
            [
                "keep": "keep the store's item unless it is damaged", "replace": "take the backup's item",
                "fail": "import nothing at all",
            ]
        }
    }

    @Argument(help: "The file to read, or - for standard input.", completion: .file())
    var file: String

    @Option(file: "Decrypt with the private keys in this file, as age-keygen writes them.")
    var identityFile: String?

    @Flag(help: "Only say what would be imported.")
    var dryRun = false

    @Option(help: "The treatment of a different item that already exists.")
    var existing = Existing.keep

    @Option(file: "Read the passphrase from this file instead of asking.")
    var passphraseFile: String?

    @OptionGroup(title: StoreHelp.title) var secret: UnlockOptions
    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    func validate() throws {
        if options.prefix != nil {
            throw ValidationError("Items are imported with their original prefixes; leave out --prefix.")
        }
        if identityFile != nil, passphraseFile != nil {
            throw ValidationError("Give --identity-file or --passphrase-file, not both.")
        }
        if file == "-",
            [identityFile, passphraseFile, options.passcodeFile].contains("-")
                || options.passcodeFd == STDIN_FILENO
        {
            throw ValidationError("Standard input carries the backup; use a file for the secret.")
        }
    }

    private func key() throws -> BackupSecret {
        if let identityFile { return .privateKeys(.file(identityFile)) }
        if let passphraseFile { return .passphrase(.file(passphraseFile)) }
        let otherwise =
            "The passphrase of the backup is needed, but there is no terminal to read it from: use --passphrase-file or "
            + "--identity-file."
        return try .passphrase(Terminal.secret("Passphrase of the backup: ", otherwise: otherwise).source)
    }

    func run() throws {
        let store = try options.store(unlockedBy: secret.secret)
        try store.openIfLocked()
        let key = try key()
        let report = try Failure.advising("Use --existing keep or --existing replace.") {
            try SecretInput.naming(identityFile == nil ? "passphrase" : "private key") {
                try store.showingProgress(of: "import") {
                    try store.backend.importBackup(
                        from: file,
                        with: key,
                        existing: existing.policy,
                        isDryRun: dryRun,
                        progress: $0
                    )
                }
            }
        }
        for key in report.keptKeys { try store.report("kept, and differs from the backup: \(key.text)") }
        for key in report.replacedKeys {
            try store.report("\(dryRun ? "would be replaced" : "replaced"): \(key.text)")
        }
        if dryRun { for key in report.addedKeys { try store.report("would be added: \(key.text)") } }
        try store.report(
            "items \(dryRun ? "to import" : "imported"): \(report.importedCount), unchanged: \(report.unchangedCount)"
        )
        try Unreadable(report.findings).fail(advice: "They were not replaced by the backup's.")
    }
}
