import Foundation

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// An operation that Proofs/KillMatrix/run kills at every system call. It has a folder of its own, with the store in it.
struct KillableOperation: Sendable {
    enum State: String { case old, between, new }

    let name: String
    let prepare: @Sendable (Folder) throws -> Void
    /// The mode in Operations.swift, and its arguments.
    let mode: @Sendable (Folder) -> [String]
    /// In which of its states the operation was killed. Throws if it is none of them, or if anything is lost.
    let inspect: @Sendable (Folder) throws -> State
    /// Completes it for whoever finds it undone or half done.
    let complete: @Sendable (KillableOperation, Folder, State) throws -> Void

    init(
        _ name: String,
        prepare: @escaping @Sendable (Folder) throws -> Void,
        mode: @escaping @Sendable (Folder) -> [String],
        inspect: @escaping @Sendable (Folder) throws -> State,
        complete: @escaping @Sendable (KillableOperation, Folder, State) throws -> Void = {
            operation,
            folder,
            _ in
            try operation.perform(in: folder)
        }
    ) {
        self.name = name
        self.prepare = prepare
        self.mode = mode
        self.inspect = inspect
        self.complete = complete
    }

    func perform(in folder: Folder) throws {
        let mode = mode(folder)
        try run(mode[0], Array(mode.dropFirst()), folder.backend(markingCalls()), folder.store)
    }

    /// The state it was left in, after everything that is promised has been looked at.
    ///
    /// - Parameter isDone: whether the operation had returned.
    func check(_ folder: Folder, isDone: Bool) throws -> State {
        let state = try inspect(folder)
        try require(!isDone || state == .new, "it had returned, and is not done")
        try folder.requireCleanAfterNextWrite()
        if state != .new { try complete(self, folder, state) }
        try require(inspect(folder) == .new, "it cannot be completed")
        return state
    }
}

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
    func backend(_ calls: SystemCalls = SystemCalls(), deviceKey: DeviceKeySource = killableSource)
        -> EncryptedFileBackend
    {
        let memory = StoreMemory("\(path)/state/known-stores", of: store)
        let storage = FileStorage(StoreLocation(store), calls: calls)
        return EncryptedFileBackend(KeyStore(storage: storage, deviceKey: deviceKey, memory: memory))
    }

    /// The store, opened by the only one of `passcodes` that opens it; nil stands for a store without one.
    func open(_ passcodes: [String?]) throws -> (backend: EncryptedFileBackend, passcode: String?) {
        let locked = backend()
        if try locked.lockState == .unprotected {
            try require(passcodes.contains(nil), "there is no passcode")
            return (locked, nil)
        }
        let opened = try passcodes.compactMap(\.self).compactMap { passcode in
            let backend = backend()
            do { try backend.unlock(.value(passcode)) } catch LockboxError.wrongPasscode {
                return (backend: EncryptedFileBackend, passcode: String?)?.none
            }
            return (backend, passcode)
        }
        try require(opened.count == 1, "\(opened.count) passcodes open the store")
        return opened[0]
    }

    /// The leftovers of a killed writer are gone after the next write, once they are old.
    func requireCleanAfterNextWrite() throws {
        for name in try FileManager.default.contentsOfDirectory(atPath: "\(store)/tmp") {
            let old = [FileAttributeKey.modificationDate: Date(timeIntervalSinceNow: -2 * 24 * 60 * 60)]
            try FileManager.default.setAttributes(old, ofItemAtPath: "\(store)/tmp/\(name)")
        }
        let item = try fixture("next", prefixes[0], .always)
        // The first of them may have to make the store.
        for _ in 0..<2 { try backend().write(item, policy: .replace) }
        let left = try FileManager.default.contentsOfDirectory(atPath: "\(store)/tmp")
        try require(left.isEmpty, "after the next write there is \(left) in tmp")
        try backend().remove(item.key)
    }
}

extension EncryptedFileBackend {
    /// Every item, each read in every way and found in exactly one file.
    func everything() throws -> [ItemKey: StoredItem] {
        var items: [ItemKey: StoredItem] = [:]
        for (key, attributes) in try everyKey() {
            let item = try item(for: key, now: nil)
            guard let item else { throw Violation(description: "\(key.key) is listed, and absent") }
            try require(item.attributes == attributes, "\(key.key) is listed with other attributes")
            try require(
                value(for: key, now: nil) == item.value,
                "\(key.key) has two values"
            )
            try require(
                itemSeal(key)?.accessibility == attributes.accessibility,
                "\(key.key) is sealed for another class"
            )
            items[key] = item
        }
        return items
    }

    /// The items that are listed: as many as there are files.
    func everyKey() throws -> [ItemKey: ItemAttributes] {
        var keys: [ItemKey: ItemAttributes] = [:]
        for prefix in try prefixes() {
            keys.merge(try attributes(prefix: prefix, now: nil)) { $1 }
        }
        let files = try itemFiles()
        try require(files == keys.count, "\(files) files, \(keys.count) items")
        return keys
    }

    /// How many files of items there are, but for Lockbox's own records.
    private func itemFiles() throws -> Int {
        guard try keyStore.keyring(creating: false) != nil else { return 0 }  // there is no store yet
        let keyring = try keyStore.currentKeyring()
        var count = 0
        for namespace in try storage.namespaces() {
            try storage.forEachName(in: namespace, waitingForCommits: false) { name in
                if let id = RecordID(name: name),
                    let metadata = try reader.metadata(
                        ItemRecord(name: RecordName(namespace: namespace, name: name), id: id),
                        keyring
                    ), ItemKey.isReserved(prefix: metadata.key.prefix)
                {
                    return
                }
                count += 1
            }
        }
        return count
    }

    /// The class and the epoch in the header of an item's file.
    func itemSeal(_ key: ItemKey) throws -> (accessibility: Accessibility, epoch: UInt32)? {
        let record = try recordName(of: key)
        return try RecordID(name: record.name).flatMap {
            try reader.header(of: ItemRecord(name: record, id: $0)).map { found in
                (found.content.accessibility, found.content.epoch)
            }
        }
    }

    /// Exactly these items are there, and nothing is wrong but what the next write removes.
    func requireExactly(_ expected: [StoredItem]) throws {
        let found = try everything()
        for item in expected {
            try require(found[item.key] == item, "\(item.key) is not as it was")
        }
        try require(found.count == expected.count, "there are \(found.count) items")
        try requireIntact()
    }

    func requireIntact(but unreadable: Set<String> = []) throws {
        if try status() == nil { return }
        let findings = try verify().findings.filter { ![.leftover, .interrupted].contains($0.kind) }
        let others = findings.filter { $0.kind != .damaged || !unreadable.contains($0.location) }
        try require(others.isEmpty, "\(others)")
        try require(
            findings.count == unreadable.count,
            "verify finds \(findings.count) of \(unreadable.count)"
        )
    }
}

// MARK: The modes

/// `kill list`, `kill prepare|run|alter|remove OPERATION FOLDER`, or `kill check`.
func kill(_ arguments: [String]) throws {
    func operation() throws -> KillableOperation {
        let operation = killableOperations.first { $0.name == arguments[1] }
        guard let operation else { throw Violation(description: "there is no operation \(arguments[1])") }
        return operation
    }
    switch (arguments.first, arguments.count) {
    case ("list", 1): for operation in killableOperations { print(operation.name) }
    case ("prepare", 3): try operation().prepare(Folder(path: arguments[2]))
    case ("run", 3): try performMarked(operation(), Folder(path: arguments[2]))
    case ("alter", 3): try alter(Folder(path: arguments[2]))
    case ("remove", 3): try removeItem(Folder(path: arguments[2]))
    case ("check", 1): checkLines()
    default: exit(64)
    }
}

/// Two harmless system calls show a tracer where the operation begins and ends. So does a line in the file that
/// `LOCKBOX_MARKS` names, to whoever records the disk.
private func performMarked(_ operation: KillableOperation, _ folder: Folder) throws {
    mark("begins")
    var status: Int32 = 0
    do { try operation.perform(in: folder) } catch LockboxError.passcodeAlreadySet {
        status = 3
    } catch LockboxError.wrongPasscode {
        status = 3
    } catch LockboxError.passcodeNotSet {
        status = 3  // it is done already
    }
    mark("ends")
    exit(status)
}

private func mark(_ name: String) {
    _ = access("/lockbox-operation-\(name)", F_OK)
    writeMark(name)
}

/// Mark where the library's system calls are, if `LOCKBOX_MARKS` is set.
func markingCalls() -> SystemCalls {
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

/// Answers each line `OPERATION<tab>FOLDER<tab>done|killed` with the state, or with what is wrong.
private func checkLines() {
    while let line = readLine() {
        let fields = line.split(separator: "\t").map(String.init)
        let operation = killableOperations.first { $0.name == fields[0] }!
        do {
            print(try operation.check(Folder(path: fields[1]), isDone: fields[2] == "done").rawValue)
        } catch {
            print("violation: \(String(describing: error).replacing("\n", with: " "))")
        }
        fflush(nil)
    }
}

/// For the control: another value for one item.
private func alter(_ folder: Folder) throws {
    let (backend, key) = try anItem(of: folder)
    try backend.update(key, now: Date()) { old in
        try StoredItem(
            key: key,
            value: ArchivedValue(data: Data("altered".utf8), format: .data),
            checked: old!.attributes
        )
    }
}

/// For the control: one item less.
private func removeItem(_ folder: Folder) throws {
    let (backend, key) = try anItem(of: folder)
    try backend.remove(key)
}

private func anItem(of folder: Folder) throws -> (EncryptedFileBackend, ItemKey) {
    let backend = try folder.open([nil, "old", "new"]).backend
    let keys = try backend.everyKey().keys
    guard let key = keys.first(where: { $0.key == "dk" }) ?? keys.first else {
        throw Violation(description: "there is no item")
    }
    return (backend, key)
}
