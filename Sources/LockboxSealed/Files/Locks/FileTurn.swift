import LockboxCore
import LockboxFiles
import LockboxPlatform

/// The locks of one or more folders, held until they are released or deallocated.
final class FileTurn: CommitTurn {
    /// The folder stays open while its lock is held. Changes go there: another folder may be at its path by now.
    typealias Held = (place: StoreFolders.Place, folder: Directory, lock: DirectoryLock)

    let locks: [Held]

    init(_ locks: [Held]) { self.locks = locks }

    deinit { release() }

    func release() { for held in locks { held.lock.release() } }

    func covers(_ place: StoreFolders.Place) -> Bool { locks.contains { $0.place == place } }

    func held(_ place: StoreFolders.Place) -> Held { locks.first { $0.place == place }! }
}
