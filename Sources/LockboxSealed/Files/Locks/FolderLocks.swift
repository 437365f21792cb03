import LockboxCore
import LockboxPlatform

/// The locks of one or more folders, held until they are released or deallocated.
final class FolderLocks: StorageLock {
    /// The folder stays open while its lock is held. Changes go there: another folder may be at its path by now.
    typealias Held = (id: StoreFolders.FolderID, folder: Directory, lock: DirectoryLock)

    let held: [Held]

    init(_ held: [Held]) { self.held = held }

    deinit { release() }

    func release() { for held in held { held.lock.release() } }

    func covers(_ id: StoreFolders.FolderID) -> Bool { held.contains { $0.id == id } }

    func lock(of id: StoreFolders.FolderID) -> Held { held.first { $0.id == id }! }
}
