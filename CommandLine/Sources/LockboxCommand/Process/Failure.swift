import Lockbox

/// An error of the command: a message of one line that says what to do, and the exit status.
struct Failure: Error {
    let status: ExitStatus
    let message: String

    init(_ status: ExitStatus, _ message: String) {
        self.status = status
        self.message = message
    }

    init(_ error: any Error) {
        switch error {
        case let failure as Failure: self = failure
        case let wrong as WrongSecret:
            self.init(.locked, "\(wrong.reason) Check it and try again. Nothing was changed.")
        case let error as LockboxError: self.init(error.status, error.advice)
        default: self.init(.inputOutput, "\(error)")
        }
    }

    /// - Parameter what: The beginning of the message. The reason follows.
    static func system(_ what: String, _ code: CInt = errno) -> Failure {
        Failure(.inputOutput, "\(what): \(String(cString: strerror(code))).")
    }

    /// Runs `body`, and says in the error about an existing item how it can be overwritten.
    static func advising<Result>(_ remedy: String, _ body: () throws -> Result) throws -> Result {
        do { return try body() } catch let error as LockboxError where error.code == .duplicateItem {
            throw Failure(error.status, "\(error.advice) \(remedy)")
        }
    }
}

/// The exit status. Documented, because scripts rely on it.
enum ExitStatus: CInt {
    case done = 0
    case noSuchItem = 1
    case locked = 2
    case damaged = 3
    case conflict = 4
    case usage = 64
    case noNewValue = 65
    case inputOutput = 74
}

/// Ends the process. Needed where the parser's `exit` hides the C library's.
func endProcess(_ status: CInt) -> Never { exit(status) }

extension LockboxError {
    var status: ExitStatus {
        switch self {
        case .itemNotFound, .slotNotFound, .storeNotFound, .emptyBackup: .noSuchItem
        case .interactionNotAllowed, .classNotProven, .passcodeNotSet, .wrongPasscode, .invalidPasscode:
            .locked
        case .corrupt, .authenticationFailed, .deviceKeyMismatch, .unsupportedVersion: .damaged
        case .missing, .rolledBack, .requirementNotMet, .invalidDeviceKey: .damaged
        case .duplicateItem, .passcodeAlreadySet, .typeMismatch, .decodingFailed: .conflict
        case .conflict, .notABackup, .sourceRefused, .userCanceled, .slotRefused: .conflict
        case .missingKeyPrefix, .invalidKey, .invalidAttribute, .valueTooLarge, .encodingFailed: .usage
        case .invalidLocation: .usage
        case .unsafePermissions, .storageFailure, .notEnoughMemory: .inputOutput
        case .unreadable, .readOnly, .lockTimeout, .storeReplaced: .inputOutput
        case .notReachable, .accessDenied, .outcomeUnknown, .notSupported, .keychainFailure: .inputOutput
        @unknown default: .inputOutput
        }
    }
}

extension LockboxError {
    /// The message. Replaces the library's message where that is about Swift calls, or leaves open what only the command knows.
    var advice: String {
        switch self {
        // Passcodes, keys and slots.
        case .interactionNotAllowed(let accessibility):
            "Items of the class \(accessibility) are locked. Run `lockbox unlock`, or use --passcode-file."
        case .classNotProven(let accessibility):
            "The store is locked, so nothing proves who chose the item's class, \(accessibility). Name it with --class, run "
                + "`lockbox unlock`, or use --passcode-file."
        case .passcodeNotSet:
            "The store has no passcode, but this needs one. Set it with `lockbox passcode set`."
        case .passcodeAlreadySet:
            "The store already has a passcode. Use `lockbox passcode change` or `lockbox passcode remove`."
        case .wrongPasscode:
            "The passcode is wrong. Check it and try again. If you are sure of it, the keybag may be forged: compare it with a "
                + "copy of the store before you use a recovery code (`lockbox unlock --help`)."
        case .invalidPasscode(let reason): "The passcode cannot be used: \(reason). Nothing was changed."
        case .notEnoughMemory(let bytes):
            "Argon2id needs \(bytes) bytes of memory, which are not available. Raise the memory limit, or run "
                + "`lockbox passcode change --strength interactive` on a machine that has enough memory."
        case .slotNotFound(let slot):
            "The store has no slot \(slot.onOneLine). `lockbox slots` shows what unlocks it."
        case .invalidDeviceKey(let source, let reason):
            "The device key (\(source.onOneLine)) cannot be used: \(reason). Nothing was changed."
        case .deviceKeyMismatch(let source):
            "The device key (\(source.onOneLine)) does not belong to this store. Put the right one back, or name it with "
                + "--device-key-file. Nothing was changed."
        // Records that cannot be read.
        case .unsupportedVersion(let record, let version):
            "\(record.onOneLine) has the format or cipher suite \(version), which this version of lockbox does not know. "
                + "Update lockbox. Nothing was changed."
        case .requirementNotMet(let record, let reason):
            "\(record.onOneLine) is refused: \(reason). An attacker may have replaced it. Check the store, or leave out the option "
                + "that requires this. Nothing was changed."
        case .rolledBack(.endpoint(let endpoint), let reason):
            "\(endpoint.onOneLine) is older than before: \(reason). Check the cluster for a restored snapshot. Nothing was changed."
        case .rolledBack(.record(let record), let reason):
            "\(record.onOneLine) does not match the keys of the store: \(reason). An attacker may have put back an old keybag. "
                + "Restore the newest copy of the whole store, or remove the item. Nothing was changed."
        case .rolledBack(let record, let reason):
            "\(record.onOneLine) does not match what was seen before: \(reason). An attacker may have put back an old copy. "
                + "If you restored or removed it yourself, run `lockbox accept-restored`. Nothing was changed."
        case .storeNotFound(let location):
            "There is no store in \(location.onOneLine). `lockbox set KEY` makes one. If there should be one, check --directory and "
                + "the user."
        case .emptyBackup(let path):
            "There is no item for the backup \(path.onOneLine), so no file was written. Check the store and --prefix, or use "
                + "--allow-empty."
        case .missing(.deviceKey(let path)):
            "\(path.onOneLine) is missing. If the device key is kept elsewhere, "
                + "use --device-key-file; otherwise restore it from a copy of the store. Nothing was changed."
        // The request, and the storage.
        case .duplicateItem(let key):
            "An item for the key \(String(reflecting: key)) already exists. Nothing was changed."
        case .missingKeyPrefix: "There is no key prefix. Use --prefix."
        case .valueTooLarge(let size, let limit):
            "The value has \(size) bytes; the limit is \(limit). Encrypt it into a file, and store the file's key here."
        case .decodingFailed(let key, _, _):
            "The value for the key \(String(reflecting: key)) is not a valid JSON string. Use --json to print it as it is stored."
        case .typeMismatch(let key, let stored, let type):
            "The value for the key \(String(reflecting: key)) is stored as \(stored) and cannot be read as \(type). "
                + "Use `lockbox get` to write it as it is stored."
        case .storeReplaced(let location):
            "\(location.onOneLine) is not the store that was used here before. If you replaced it yourself, run "
                + "`lockbox accept-restored`. If it was moved while the command ran, run the command again."
        case .conflict(let record):
            "Another writer changed \(record.onOneLine) at the same time, and that change is kept. Run the command again."
        case .outcomeUnknown(let record, let reason, wasMade: false):
            "It is not known whether \(record.onOneLine) was changed: \(reason). Check what is stored before you run the "
                + "command again."
        case .notSupported(let operation): "Not supported: \(operation). Nothing was changed."
        default: description
        }
    }
}

extension LockboxError.Subject {
    fileprivate var onOneLine: String { description.onOneLine }
}

/// The items that a command has skipped because they cannot be read.
struct Unreadable {
    private var lines: [String] = []
    private var isHidden = false
    private var isDamaged = false

    var count: Int { lines.count }

    init(_ items: [UnreadableItem] = []) { items.forEach { add($0) } }

    init(_ findings: [StoreFinding]) { findings.forEach { add($0) } }

    mutating func add(_ item: UnreadableItem) {
        add(item.record.onOneLine + (item.key.map { " (\($0.text))" } ?? ""), item.error)
    }

    mutating func add(_ key: ItemKey, _ error: LockboxError) { add(key.text, error) }

    private mutating func add(_ name: String, _ error: LockboxError) {
        if error.isHidden { isHidden = true } else { isDamaged = true }
        lines.append("\(name): \(error.advice.onOneLine)")
    }

    mutating func add(_ finding: StoreFinding) {
        lines.append("\(finding.location.onOneLine): \(finding.reason.onOneLine)")
    }

    /// Names them.
    func note() { for line in lines { Output.note("lockbox: \(line)") } }

    /// Names them, and fails if there are any: the user must know that something is missing.
    func fail(_ what: String = "Items that cannot be read", advice: String) throws {
        note()
        if !lines.isEmpty { throw Failure(.damaged, "\(what): \(count). \(advice)") }
    }

    /// The same, with advice. Removal is advised only for what is damaged.
    func fail(in store: Store) throws {
        let repair = isHidden ? Self.repair(in: store) : ""
        let restore = isHidden ? " For those that are damaged: restore" : "Restore"
        let damage =
            "\(restore) them from a backup, or use `lockbox remove --record` or `lockbox quarantine`."
        try fail(advice: repair + (isDamaged ? damage : ""))
    }

    /// The command that brings back items which only permissions hide.
    static func repair(in store: Store) -> String {
        "If only permissions are wrong, `chmod -R go-rwx \(store.location.onOneLine)` repairs them."
    }
}

extension LockboxError {
    /// Whether the record could not be read at all, and may be whole.
    var isHidden: Bool { [.unsafePermissions, .unreadable, .storageFailure].contains(code) }
}
