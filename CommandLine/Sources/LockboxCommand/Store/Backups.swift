import ArgumentParser
import Lockbox

struct ExportCommand: Command {
    static let help: CommandHelp = """
        export: Write a backup, which age can decrypt too.

        The backup is encrypted to the public keys of age that are given, otherwise with a passphrase. It can be \
        imported into any store. `age -d FILE` prints it as JSON in lines, with \
        prefix, key and value, which is base64 if encoding says so: `age -d FILE | jq -r 'select(.key == "token").value'`. \
        Items of the ThisDeviceOnly classes are left out, and listed. Without --prefix, items of all prefixes are \
        included. A file that is there already stays as FILE~, in place of the one before. A backup that lacks items \
        because they cannot be read is FILE.incomplete.

        Example: lockbox export /media/usb/lockbox.age
        """

    @Argument(
        help:
            "The file to write, or - for standard output. A file that is there already becomes FILE~.",
        completion: .file()
    )
    var file: String

    @Option(
        name: .customLong("recipient"),
        help: .init("Encrypt to this public key of age. Can be repeated.", valueName: "age1…")
    )
    var recipients: [String] = []

    @Option(
        file:
            "Encrypt to the public keys in this file, one in each line. No other user may be able to change it."
    )
    var recipientsFile: String?

    @Option(file: "Read the passphrase from this file instead of asking.")
    var passphraseFile: String?

    @Option(help: "The cost of each guess at the passphrase: scrypt with 2 to this power KiB of memory.")
    var workFactor = 18

    @Flag(help: "Also write a backup that has no item.")
    var allowEmpty = false

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
        let keys = try keys()
        let report = try store.showingProgress(of: "export") { try export(store, to: keys, $0) }
        func say(_ text: String) throws { if file == "-" { store.say(text) } else { try store.report(text) } }
        for key in report.excludedKeys {
            try say("left out because it stays on this device: \(key.text)")
        }
        if let kept = report.keptBackup { try say("the earlier file is now \(kept.onOneLine)") }
        if report.path != "-", !report.isComplete { try say("this backup is \(report.path.onOneLine)") }
        for key in keys ?? [] { try say("encrypted to \(key)") }
        try say("items in the backup: \(report.exportedCount)")
        let unreadable = report.findings.filter { $0.kind != .changing }
        try Unreadable(unreadable).fail(advice: "They are not in the backup.")
        if unreadable.count < report.findings.count {
            throw Failure(
                .damaged,
                "The store changed all the while: an item that was moved may be missing. Export it again."
            )
        }
    }

    private static func isInside(_ file: String, _ folder: String) -> Bool {
        let end = file.utf8.lastIndex(of: UInt8(ascii: "/"))
        guard let folder = realPath(folder), let parent = realPath(end.map { String(file[...$0]) } ?? ".")
        else { return false }
        return "\(parent)/".hasPrefix("\(folder)/")
    }

    /// Returns the public keys, or nil if it is to be encrypted with a passphrase.
    private func keys() throws -> [String]? {
        if let recipientsFile { return try recipients + Input.lines(ofOwnFile: recipientsFile) }
        return recipients.isEmpty ? nil : recipients
    }

    private func newPassphrase() throws -> PasscodeSource {
        let option = "--passphrase-file, --recipient or --recipients-file"
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
                allowsEmpty: allowEmpty,
                progress: progress
            )
        }
    }
}

struct ImportCommand: Command {
    static let help: CommandHelp = """
        import: Import a backup into this store.

        Nothing is written before the whole file has been authenticated. If it is interrupted, it can be \
        run again. A damaged item in the store is replaced. If its file is a link or has unsafe permissions, it \
        is first moved to quarantine. A backup is not signed: an attacker who knows a public key can make one for it. \
        --dry-run says what it would change, --list which items it has. With keys, only these items are imported, and a \
        different one in the store is an error, unless --existing says otherwise. Classes in it do not count as chosen, unless --trusted says that \
        the backup is yours.

        Example: lockbox import token /media/usb/lockbox.age --identity-file key.txt
        """

    @Argument(
        help: .init(
            "The keys of single items of the backup, if not all are meant, and the file to read, or - for standard input.",
            valueName: "key-or-file"
        ),
        completion: .file()
    )
    var words: [String]

    @Flag(help: "Only print the prefixes and keys of the backup's items. Needs no store.")
    var list = false

    @Option(file: "Decrypt with the private keys in this file, as age-keygen writes them.")
    var identityFile: String?

    @Flag(help: "Only say what would be imported.")
    var dryRun = false

    @Flag(help: "The backup is yours for certain: classes that were chosen in it count as chosen.")
    var trusted = false

    @Option(
        help: "The treatment of a different item that already exists. (default: keep; for single items fail)"
    )
    var existing: ExistingItemPolicy?

    @Option(file: "Read the passphrase from this file instead of asking.")
    var passphraseFile: String?

    @OptionGroup(title: StoreHelp.title) var secret: UnlockOptions
    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    private var file: String { words.last! }
    private var keys: ArraySlice<String> { words.dropLast() }

    func validate() throws {
        if options.prefix != nil, keys.isEmpty {
            throw ValidationError("Items are imported with their original prefixes; leave out --prefix.")
        }
        if list, !keys.isEmpty { throw ValidationError("--list is for the whole file. Leave out the keys.") }
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

    private func backupSecret() throws -> BackupSecret {
        if let identityFile { return .privateKeys(.file(identityFile)) }
        if let passphraseFile { return .passphrase(.file(passphraseFile)) }
        let otherwise =
            "The passphrase of the backup is needed, but there is no terminal to read it from: use --passphrase-file or "
            + "--identity-file."
        return try .passphrase(Terminal.secret("Passphrase of the backup: ", otherwise: otherwise).source)
    }

    /// Before a passphrase is asked for. The library says more of a backup that was changed on its way.
    private func checkFile() throws {
        if let first = keys.first, file != "-", access(file, F_OK) != 0, access(first, F_OK) == 0 {
            throw Failure(.usage, "The file comes last: lockbox import KEY FILE.")
        }
        var status = stat()
        guard stat(file, &status) == 0, [S_IFREG, S_IFDIR].contains(status.st_mode & S_IFMT) else { return }
        var bytes = [UInt8](repeating: 0, count: 64)
        let descriptor = open(file, O_RDONLY | O_CLOEXEC)
        defer { close(descriptor) }
        let count = read(descriptor, &bytes, bytes.count)
        let visible = bytes.prefix(max(0, count)).drop { !(0x21...0x7E).contains($0) }.filter { $0 != 0 }
        let text = String(decoding: visible, as: UTF8.self)
        let begins = ["age-encryption.org/", "-----BEGIN AGE ENCRYPTED FILE-----", "LBXE"]
        let isBackup = begins.contains { text.hasPrefix($0) || $0.hasPrefix(text) }
        if isBackup, status.st_mode & S_IFMT == S_IFREG { return }
        throw Failure(
            .conflict,
            "\(file.onOneLine) is not a Lockbox backup. For what other programs keep, there are `lockbox import-env`, import-netrc and "
                + "import-pass. Nothing was imported."
        )
    }

    func run() throws {
        try checkFile()
        if list {
            let secret = try backupSecret()
            let keys = try naming { try SealedBackend.keys(ofBackup: file, with: secret) }
            for key in keys { try Output.line(key.text) }
            return
        }
        let store = try options.store(unlockedBy: secret.secret, for: .making)
        try store.openIfLocked()
        let named = try Set(keys.map { try ItemKey(prefix: store.prefix, key: $0) })
        let secret = try backupSecret()
        let report = try Failure.advising("Use --existing keep or --existing replace.") {
            try naming {
                try store.showingProgress(of: "import") {
                    try store.backend.importBackup(
                        from: file,
                        with: secret,
                        only: named.isEmpty ? nil : named,
                        existing: existing ?? (named.isEmpty ? .keep : .fail),
                        isDryRun: dryRun,
                        isTrusted: trusted,
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

    private func naming<Result>(_ body: () throws -> Result) throws -> Result {
        try SecretInput.naming(identityFile == nil ? "passphrase" : "private key") {
            do { return try body() } catch LockboxError.itemNotFound(let key) {
                throw Failure(
                    .noSuchItem,
                    "The backup has no item for the key \(String(reflecting: key)) under this prefix. `lockbox import --list FILE` "
                        + "prints what it has. Nothing was imported."
                )
            }
        }
    }
}
