import LockboxCore
import LockboxFiles

extension FileStorage: QuarantiningStorage {
    /// See ``QuarantiningStorage/quarantine(_:)``. Moves the file, link or folder into the store's folder
    /// `quarantine`, where nothing reads it.
    public func quarantine(_ record: RecordName) throws -> String {
        let turn = FileTurn([try acquireLock(.init(namespace: record.namespace))])
        defer { turn.release() }
        let path = try quarantine(record, turn)
        for held in turn.locks { try held.folder.synchronize() }
        return path
    }

    func quarantine(_ record: RecordName, _ turn: FileTurn) throws -> String {
        let (_, folder, lock) = turn.held(.init(namespace: record.namespace))
        guard try folder.holds(record.name) else { throw LockboxError.missing(record: location(of: record)) }
        let quarantine = try folders.sparingDescriptors { try folders.existing(.quarantine) }
        // The same name may be set aside more than once.
        let name = "\(record.name).\(String(UInt64.random(in: .min ... .max), radix: 16))"
        let renamed = try lock.renaming {
            calls.rename(record.name, at: folder.descriptor, to: name, at: quarantine.descriptor)
        }
        try check(renamed, "rename", folder.filePath(record.name))
        try quarantine.synchronize()
        return quarantine.filePath(name)
    }
}
