import Foundation

@testable import Lockbox
import LockboxBackup
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// An operation during which Proofs/PowerCut/run cuts the power. It has a folder of its own, with the store in it.
struct CutOperation: Sendable {
    enum State: String { case old, between, new }

    let name: String
    /// What is there before.
    let items: @Sendable () throws -> [StoredItem]
    let perform: @Sendable (Folder, EncryptedFileBackend) throws -> Void
    /// The state that a cut has left. Throws if it is none of them, or if anything is lost.
    let inspect: @Sendable (Folder) throws -> State

    /// - Parameter isDone: Whether the operation had returned.
    func check(_ folder: Folder, isDone: Bool) throws -> State {
        let state = try inspect(folder)
        try require(!isDone || state == .new, "it had returned, and is not done")
        if state != .new { try perform(folder, folder.backend()) }
        try require(inspect(folder) == .new, "it cannot be completed")
        return state
    }
}

/// One for each way to change files: a new one, one replaced, one removed, several in stages, one outside the store.
private let operations: [CutOperation] = [
    CutOperation(
        name: "first write",
        items: { [] },
        perform: { try $1.write(written("short"), policy: .replace) },
        inspect: { try inspectWrite($0, old: nil, new: "short") }
    ),
    CutOperation(
        name: "replace",
        items: { try neighbors() + [written("long")] },
        perform: { try $1.write(written("other long"), policy: .replace) },
        inspect: { try inspectWrite($0, old: "long", new: "other long") }
    ),
    CutOperation(
        name: "remove",
        items: { try neighbors() + [written("short")] },
        perform: { try $1.remove(written("short").key) },
        inspect: { try inspectWrite($0, old: "short", new: nil) }
    ),
    CutOperation(
        name: "rotateKeys",
        items: neighbors,
        perform: { try $1.rotateKeys() },
        inspect: { folder in
            try folder.requireExactly(neighbors())
            let keybag = try folder.backend().keyStore.current().keybag
            return keybag.isRotating || keybag.isPrepared ? .between : keybag.epoch == 1 ? .old : .new
        }
    ),
    CutOperation(
        name: "export",
        items: neighbors,
        perform: { folder, backend in
            let recipients = try BackupRecipients.passphrase(.value("passphrase"), workFactor: 10).keys()
            _ = try backend.export(to: folder.backup, for: recipients, calls: markingCalls())
        },
        inspect: inspectExport
    ),
]

struct Violation: Error, CustomStringConvertible {
    let description: String
}

func require(_ condition: Bool, _ description: @autoclosure () -> String) throws {
    if !condition { throw Violation(description: description()) }
}

/// The folder that an operation has to itself.
struct Folder {
    let path: String

    var store: String { "\(path)/store" }
    var backup: String { "\(path)/backup" }

    /// Like a process that has just started. All copies of a folder are one store, so each has a memory of its own.
    func backend(_ calls: SystemCalls = SystemCalls()) -> EncryptedFileBackend {
        let memory = StoreMemory("\(path)/state/known-stores", of: store)
        let storage = FileStorage(StoreLocation(store), calls: calls)
        return EncryptedFileBackend(KeyStore(storage: storage, deviceKey: .stored, memory: memory))
    }

    /// Exactly these items are there, and nothing is wrong but what the next write removes.
    func requireExactly(_ expected: [StoredItem]) throws {
        let backend = backend()
        var keys: Set<ItemKey> = []
        for prefix in try backend.prefixes() {
            keys.formUnion(try backend.attributes(prefix: prefix, now: nil).keys)
        }
        try require(keys == Set(expected.map(\.key)), "there are \(keys.count) items")
        for item in expected {
            try require(backend.item(for: item.key, now: nil) == item, "\(item.key) is not as it was")
        }
        if try backend.status() == nil { return }
        let findings = try backend.verify().findings.filter { ![.leftover, .interrupted].contains($0.kind) }
        try require(findings.isEmpty, "\(findings)")
    }
}

// MARK: The modes

/// `power list`, `power prepare|run OPERATION FOLDER`, or `power check`.
func power(_ arguments: [String]) throws {
    func operation(_ name: String) throws -> CutOperation {
        guard let operation = operations.first(where: { $0.name == name }) else {
            throw Violation(description: "there is no operation \(name)")
        }
        return operation
    }
    switch (arguments.first, arguments.count) {
    case ("list", 1): for operation in operations { print(operation.name) }
    case ("prepare", 3):
        let backend = Folder(path: arguments[2]).backend()
        for item in try operation(arguments[1]).items() { try backend.write(item, policy: .addOnly) }
    case ("run", 3):
        let folder = Folder(path: arguments[2])
        writeMark("begins")
        try operation(arguments[1]).perform(folder, folder.backend(markingCalls()))
        writeMark("ends")
    case ("check", 4):
        let state = Result { () throws -> CutOperation.State in
            try operation(arguments[1]).check(Folder(path: arguments[2]), isDone: arguments[3] == "done")
        }
        switch state {
        case .success(let state): print(state.rawValue)
        case .failure(let error): print("violation: \(String(describing: error).replacing("\n", with: " "))")
        }
    default: exit(64)
    }
}

/// Lines in the file that `LOCKBOX_MARKS` names show to the recorder of the disk where the library's system calls are.
private func markingCalls() -> SystemCalls {
    if getenv("LOCKBOX_MARKS") == nil { return SystemCalls() }
    return SystemCalls(fault: { _ in
        writeMark("call")
        return nil
    })
}

private func writeMark(_ name: String) {
    guard let path = getenv("LOCKBOX_MARKS") else { return }
    let file = open(path, O_WRONLY | O_APPEND)
    let written = write(file, "\(name)\n", name.utf8.count + 1)
    close(file)
    if written < 0 { exit(74) }
}

// MARK: Items and states

private func item(_ key: String, _ text: String, of prefix: String = prefix) throws -> StoredItem {
    try StoredItem(
        key: ItemKey(prefix: prefix, key: key),
        value: ArchivedValue(data: Data(text.utf8), format: .data),
        accessibility: .afterFirstUnlock,
        modified: Date(timeIntervalSinceReferenceDate: 800_000_000.5)
    )
}

/// A short value fits into btrfs's metadata, a long one gets blocks of its own.
@Sendable private func written(_ text: String) throws -> StoredItem {
    try item("written", text.hasSuffix("long") ? String(repeating: text, count: 5000) : text)
}

/// The items that no operation changes.
@Sendable private func neighbors() throws -> [StoredItem] {
    try [item("neighbor", "n"), item("other", "o", of: "com.example.other")]
}

private func inspectWrite(_ folder: Folder, old: String?, new: String?) throws -> CutOperation.State {
    let key = try written("short").key
    let found = try folder.backend().item(for: key, now: nil)
    let (before, after) = (try old.map(written), try new.map(written))
    try require(found == before || found == after, "the value is neither the old one nor the new one")
    try folder.requireExactly((old == nil ? [] : neighbors()) + [found].compactMap(\.self))
    return found == after ? .new : .old
}

@Sendable private func inspectExport(_ folder: Folder) throws -> CutOperation.State {
    try folder.requireExactly(neighbors())
    guard FileManager.default.fileExists(atPath: folder.backup) else { return .old }
    let restored = Folder(path: "\(folder.path)/restored")
    defer { try? FileManager.default.removeItem(atPath: restored.path) }
    try restored.backend().importBackup(
        from: folder.backup,
        with: .passphrase(.value("passphrase")),
        existing: .fail
    )
    try restored.requireExactly(neighbors())
    return .new
}
