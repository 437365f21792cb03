public import LockboxCore
import LockboxPlatform

@_spi(Extensions) extension FileStorage: LockingStorage {
    /// Makes the changes under the locks of their folders, and of those of the expected items.
    public func commit(_ changes: [RecordChange], expecting: [RecordName: RecordRevision]) throws
        -> CommitOutcome
    {
        try commit(changes, expecting: expecting, under: nil)
    }

    /// - Parameter given: The locks that the caller holds, or nil to take them.
    func commit(
        _ changes: [RecordChange],
        expecting: [RecordName: RecordRevision],
        under given: FolderLocks?
    ) throws -> CommitOutcome {
        if let outcome = try confirmRemoval(changes, expecting) { return outcome }
        // Before the lock, so that writers wait only for each other's renames, and not for each other's disk.
        let isEarly = changes.count <= TemporaryFiles.filesAtOnce
        var temporary = try isEarly && changes.contains(where: \.isPut) ? writeFiles(changes) : nil
        defer { temporary?.remove() }
        // Under locks that were lost, the records that the caller has looked at may have changed.
        if let given, try !given.keepOthersOut(of: changes.map(\.record.namespace)) { return .conflict }
        let locks = try given ?? locks(of: changes.namespaces(expecting: expecting))
        defer { if given == nil { locks.release() } }
        // Sorted, so that the same commit makes the same system calls, which simulations rely on.
        for (record, expected) in expecting.sorted(by: { $0.key.order < $1.key.order })
        where try revision(of: record, locks) != expected { return .conflict }
        if temporary == nil, changes.contains(where: \.isPut) {
            // While many files are synchronized, those who wait see that it goes on.
            temporary = try writeFiles(changes) {
                for held in locks.held { try? held.lock.setRenaming(false) }
            }
        }
        return try applyAll(changes, temporary, under: locks, isOwn: given == nil)
    }

    private func writeFiles(_ changes: [RecordChange], _ progress: () -> Void = {}) throws(LockboxError)
        -> TemporaryFiles
    {
        func write() throws(LockboxError) -> TemporaryFiles {
            try TemporaryFiles(changes, folders.folderForWriting(.temporary), progress)
        }
        do throws(LockboxError) {
            do { return try write() } catch {
                guard error.isOfRemovedFolder else { throw error }
                try folders.reopen()
                return try write()
            }
        } catch { throw error.ofWriting }
    }

    /// Removes absent records without taking a lock, so that no folder has to be created for the lock file.
    private func confirmRemoval(_ changes: [RecordChange], _ expecting: [RecordName: RecordRevision]) throws
        -> CommitOutcome?
    {
        guard expecting.values.allSatisfy({ $0 == .absent }) else { return nil }
        var expecting = expecting
        for change in changes {
            guard case .remove(let record) = change, try !exists(record) else { return nil }
            expecting[record] = nil
        }
        guard expecting.isEmpty else { return nil }
        do {
            for namespace in Set(changes.map(\.record.namespace)) {
                try synchronizeFolder(.init(namespace: namespace))
            }
        } catch {
            guard error.code == .outcomeUnknown else { throw error }
            return .unknown(error)
        }
        return .committed
    }

    func synchronizeFolder(_ id: StoreFolders.FolderID) throws(LockboxError) {
        try folders.folder(id, creating: false)?.synchronizeChanges()
    }

    // MARK: The locks

    /// Waits for the locks of the namespaces' folders, and takes them.
    public func lock(_ namespaces: Set<String?>) throws(LockboxError) -> any StorageLock {
        try locks(of: namespaces)
    }

    /// Always in the same order, to avoid deadlocks.
    private func locks(of namespaces: Set<String?>) throws(LockboxError) -> FolderLocks {
        var held: [FolderLocks.Held] = []
        for namespace in namespaces.sorted(by: { $0 ?? "" < $1 ?? "" }) {
            held.append(try acquireLock(.init(namespace: namespace)))
        }
        return FolderLocks(self, held)
    }

    /// Acquires the lock of the folder that is at the path afterwards: the store may be moved during the wait.
    func acquireLock(_ id: StoreFolders.FolderID) throws(LockboxError) -> FolderLocks.Held {
        do { return try lockInPlace(id) } catch { throw error.ofWriting }
    }

    private func lockInPlace(_ id: StoreFolders.FolderID) throws(LockboxError) -> FolderLocks.Held {
        var wasRemoved = false
        while true {
            do {
                let folder = try folders.folderForWriting(id)
                let lock = try folder.queue.acquire(folder, timeout: lockTimeout)
                if try folders.isInPlace(folder, id) {
                    if lock.isFirst { try folders.synchronize(above: id) }
                    return (id, folder, lock)
                }
                lock.release()
            } catch {
                guard error.isOfRemovedFolder, !wasRemoved else { throw error }
                wasRemoved = true
            }
            try folders.reopen()
        }
    }

    /// No other process can rename files in a locked folder, so an absent record needs no second look.
    private func revision(of record: RecordName, _ locks: FolderLocks) throws -> RecordRevision {
        let id = StoreFolders.FolderID(namespace: record.namespace)
        guard locks.covers(id) else { return try revision(of: record, maximum: .max) }
        let folder = locks.held(for: id).folder
        return try folder.readRecord(record, atLeast: 0, maximum: .max) { $0.revision } ?? .absent
    }

    // MARK: The changes

    /// Renames the temporary files, and removes files when these are durable: an item that is moved is never lost.
    private func applyAll(
        _ changes: [RecordChange],
        _ temporary: TemporaryFiles?,
        under locks: FolderLocks,
        isOwn: Bool
    ) throws -> CommitOutcome {
        do {
            let removals = changes.filter { !$0.isPut }
            if removals.count < changes.count {
                for change in changes where change.isPut { try apply(change, temporary, under: locks) }
                if !removals.isEmpty {
                    do { try synchronizeFolders(of: locks) } catch { return .unknown(error) }
                }
            }
            for change in removals { try apply(change, temporary, under: locks) }
        } catch {
            // Earlier changes of this commit stay in effect.
            try? synchronizeFolders(of: locks)
            throw error
        }
        // The next writer of a namespace need not wait for this disk. It sees and synchronizes this
        // commit, too. A keybag is synchronized before another one can replace it.
        if isOwn, !locks.covers(.root) { locks.release() }
        do { try synchronizeFolders(of: locks) } catch { return .unknown(error) }
        return .committed
    }

    func synchronizeFolders(of locks: FolderLocks) throws(LockboxError) {
        for held in locks.held { try held.folder.synchronizeChanges() }
    }

    private func apply(_ change: RecordChange, _ temporary: TemporaryFiles?, under locks: FolderLocks) throws
    {
        let record = change.record
        let (_, folder, lock) = locks.held(for: .init(namespace: record.namespace))
        guard change.isPut else {
            if try !folder.removeEntry(record.name) { _ = try moveAside(record, under: locks) }
            return
        }
        var again: TemporaryFiles?
        defer { again?.remove() }
        while true {
            try lock.setRenaming(true)
            let result = (again ?? temporary!).rename(record, to: folder)
            try? lock.setRenaming(false)
            if again != nil || result != -Int(ENOENT) && result != -Int(EXDEV) {
                try check(result, "rename", folder.filePath(record.name))
                return
            }
            // Swept away, between its creation and its lock, or another store has been mounted meanwhile.
            again = try writeFiles([change])
        }
    }
}

extension RecordChange {
    fileprivate var isPut: Bool {
        if case .put = self { true } else { false }
    }
}

extension RecordName {
    /// The keybag comes before items.
    fileprivate var order: (String, String) { (namespace ?? "", name) }
}

/// The new records of a commit, written to `tmp` and synchronized, but not renamed yet.
///
/// Each file's lock is held as long as it is open: see ``AbandonedFiles``.
final class TemporaryFiles {
    let folder: Directory
    private var names: [RecordName: String] = [:]
    private var descriptors: [CInt] = []

    /// The maximum number of files that are open at once: as many as a store may have open folders.
    static let filesAtOnce = StoreFolders.maximumOpen

    /// - Parameters:
    ///   - changes: If there are more than ``filesAtOnce``, the caller holds the namespaces' locks.
    ///   - progress: Called after each ``filesAtOnce`` files then, which may take a disk seconds.
    init(_ changes: [RecordChange], _ folder: Directory, _ progress: () -> Void = {}) throws(LockboxError) {
        self.folder = folder
        do {
            for start in stride(from: 0, to: changes.count, by: Self.filesAtOnce) {
                close()
                var files: [(name: String, bytes: [UInt8])] = []
                for case .put(let record, let bytes) in changes[start...].prefix(Self.filesAtOnce) {
                    files.append((AbandonedFiles.newName(), bytes))
                    names[record] = files.last?.name
                }
                descriptors = try folder.writeFiles(files)
                if changes.count > Self.filesAtOnce { progress() }
            }
        } catch {
            remove()
            throw error
        }
    }

    deinit { close() }

    private func close() {
        for descriptor in descriptors { folder.calls.close(descriptor) }
        descriptors = []
    }

    /// Renames a record's file into its folder. Returns the result of the call.
    func rename(_ record: RecordName, to folder: Directory) -> Int {
        guard let name = names[record] else { return -Int(ENOENT) }
        let result = folder.calls.rename(
            name,
            at: self.folder.descriptor,
            to: record.name,
            at: folder.descriptor
        )
        if result == 0 { names[record] = nil }
        return result
    }

    /// Removes the files that have not been renamed.
    func remove() {
        for name in names.values { folder.remove(name) }
        names = [:]
    }
}

/// An error of a system call in the terms of the storage contract.
extension LockboxError {
    /// Whether a folder that was open has been removed: another one may be at its path.
    var isOfRemovedFolder: Bool {
        if case .storageFailure(_, _, ENOENT, _) = self { true } else { false }
    }

    /// Whether the system refuses the call to this process, or to all of them on this file system.
    var isRefusal: Bool {
        guard case .storageFailure(_, _, let code, _) = self else { return false }
        return [EROFS, EACCES, EPERM].contains(code)
    }

    /// The same error, as an error of a write or of the lock that it needs.
    var ofWriting: LockboxError {
        guard case .storageFailure(let operation, let path, let code, _) = self, isRefusal else {
            return self
        }
        let advice = "Check its owner and permissions, and whether the file system is mounted read-only"
        return .readOnly(location: path.description, reason: "\(Self.reason(operation, code)). \(advice)")
    }

    /// The same error, as an error of reading a record.
    func ofReading(_ record: Subject) -> LockboxError {
        switch self {
        case .storageFailure(let operation, _, let code, _) where [EACCES, EPERM, EIO].contains(code):
            .unreadable(record: record, reason: Self.reason(operation, code))
        case .storageFailure(let operation, _, let code, _):
            .storageFailure(operation: operation, path: record, errno: code)
        case .unsafePermissions(_, let reason): .unsafePermissions(path: record, reason: reason)
        case .corrupt(_, let reason): .corrupt(record: record, reason: reason)
        default: self
        }
    }

    static func reason(_ operation: String, _ code: CInt) -> String {
        "\(operation) failed: \(String(cString: strerror(code))) (errno \(code))"
    }
}
