public import LockboxCore
import LockboxFiles

extension FileStorage: QuarantiningStorage {
    /// Moves a record's file, link or folder into the store's folder `quarantine`, where nothing reads it, and
    /// returns its path.
    public func quarantine(_ record: RecordName) throws(LockboxError) -> String {
        try quarantine(record, lock: nil)
    }

    /// Quarantines a record under a lock that the caller holds, or takes one.
    public func quarantine(_ record: RecordName, lock: (any StorageLock)?) throws(LockboxError) -> String {
        if let locks = lock as? FolderLocks, try isValid(locks, for: [.remove(record)]) {
            return try quarantineDurably(record, locks)
        }
        let locks = FolderLocks([try acquireLock(.init(namespace: record.namespace))])
        defer { locks.release() }
        return try quarantineDurably(record, locks)
    }

    private func quarantineDurably(_ record: RecordName, _ locks: FolderLocks) throws(LockboxError) -> String
    {
        let path = try quarantine(record, locks)
        for held in locks.held { try held.folder.synchronizeChanges() }
        return path
    }

    func quarantine(_ record: RecordName, _ locks: FolderLocks) throws(LockboxError) -> String {
        let (_, folder, lock) = locks.lock(of: .init(namespace: record.namespace))
        guard try folder.holds(record.name) else { throw LockboxError.missing(record: location(of: record)) }
        let quarantine = try folders.sparingDescriptors { () throws(LockboxError) in
            try folders.existing(.quarantine)
        }
        // The same name may be set aside more than once.
        let name = "\(record.name).\(String(UInt64.random(in: .min ... .max), radix: 16))"
        try lock.setRenaming(true)
        let renamed = calls.rename(record.name, at: folder.descriptor, to: name, at: quarantine.descriptor)
        try? lock.setRenaming(false)
        try check(renamed, "rename", folder.filePath(record.name))
        try quarantine.synchronizeChanges()
        return quarantine.filePath(name)
    }
}
