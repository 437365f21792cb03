import LockboxCore
import LockboxFiles
import LockboxPlatform

/// The new records of a commit, written to `tmp` and synchronized, but not renamed yet.
///
/// Each file's own lock is held as long as it is open, and the namespace's lock may be: see ``Leftovers``.
final class TemporaryFiles {
    let folder: Directory
    private var names: [RecordName: String] = [:]
    private var descriptors: [CInt] = []

    /// So many files are open at once: as many as a store may have open folders.
    static let filesAtOnce = StoreFolders.maximumOpen

    /// - Parameters:
    ///   - changes: If there are more than ``filesAtOnce``, the caller holds the namespaces' locks.
    ///   - progress: Called then after so many files, which may have taken the disk seconds.
    init(_ changes: [RecordChange], _ folder: Directory, _ progress: () -> Void = {}) throws(LockboxError) {
        self.folder = folder
        do {
            for start in stride(from: 0, to: changes.count, by: Self.filesAtOnce) {
                close()
                var files: [(name: String, bytes: [UInt8])] = []
                for case .put(let record, let bytes) in changes[start...].prefix(Self.filesAtOnce) {
                    files.append((Leftovers.temporaryName(namespace: record.namespace), bytes))
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
