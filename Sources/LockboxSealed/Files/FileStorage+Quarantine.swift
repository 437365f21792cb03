import LockboxCore
import LockboxFiles

extension FileStorage: QuarantiningStorage {
    /// See ``QuarantiningStorage/quarantine(_:)``. Moves the file, link or folder into the store's folder
    /// `quarantine`, where nothing reads it.
    public func quarantine(_ record: RecordName) throws -> String { try quarantine(record, turn: nil) }

    /// See ``QuarantiningStorage/quarantine(_:turn:)``.
    public func quarantine(_ record: RecordName, turn: (any CommitTurn)?) throws -> String {
        let given = try (turn as? FileTurn).flatMap { try isValid($0, for: [.remove(record)]) ? $0 : nil }
        let turn = try given ?? FileTurn([acquireLock(.init(namespace: record.namespace))])
        defer { if given == nil { turn.release() } }
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
