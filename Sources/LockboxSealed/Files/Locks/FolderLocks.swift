import LockboxCore
import LockboxPlatform

/// The locks of one or more folders, held until they are released or deallocated.
final class FolderLocks: StorageLock {
    /// The folder stays open while its lock is held. Changes go there: another folder may be at its path by now.
    typealias Held = (place: StoreFolders.Place, folder: Directory, lock: DirectoryLock)

    let held: [Held]

    init(_ held: [Held]) { self.held = held }

    deinit { release() }

    func release() { for held in held { held.lock.release() } }

    func covers(_ place: StoreFolders.Place) -> Bool { held.contains { $0.place == place } }

    func lock(of place: StoreFolders.Place) -> Held { held.first { $0.place == place }! }
}
