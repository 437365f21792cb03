import LockboxCore
import LockboxPlatform

/// The open folders of a store. They are opened when they are needed, and closed when there are too many.
final class StoreFolders: Sendable {
    let location: StoreLocation
    let calls: SystemCalls
    private let isForOneMachine: Bool
    var directory: String { location.directory }
    private let state = Protected(State())

    private struct State {
        var open: [FolderID: Directory] = [:] { didSet { recent = [] } }
        /// The few folders used last, and when. An array, because comparing a few IDs costs less than hashing
        /// one.
        var recent: [(id: FolderID, folder: Directory, time: Duration)] = []
    }

    enum FolderID: Hashable {
        case root, temporary, items, quarantine
        case namespace(String)

        init(namespace: String?) { self = namespace.map(FolderID.namespace) ?? .root }

        /// The folder that this one is in.
        var parent: FolderID? {
            switch self {
            case .root: nil
            case .temporary, .items, .quarantine: .root
            case .namespace: .items
            }
        }

        /// Its own name. The root is named by the store's path.
        var name: String {
            switch self {
            case .root: ""
            case .temporary: "tmp"
            case .items: "items"
            case .quarantine: "quarantine"
            case .namespace(let name): name
            }
        }

        /// The path from the root.
        var path: String { parent == .items ? "items/\(name)" : name }
    }

    init(_ location: StoreLocation, calls: SystemCalls, isForOneMachine: Bool) {
        self.location = location
        self.isForOneMachine = isForOneMachine
        // Folders are kept open only to save time.
        var calls = calls
        calls.spareDescriptors = { [weak state] in state?.withLock { Self.keepRoot(&$0.open) } }
        self.calls = calls
    }

    // MARK: Opening

    /// Returns an open folder of the store, or nil if it does not exist and `creating` is false.
    func folder(_ id: FolderID, creating: Bool) throws(LockboxError) -> Directory? {
        let folder = state.withLock { state in state.open[id] }
        if let folder { return folder }
        var path = [id]
        while let parent = path[0].parent { path.insert(parent, at: 0) }
        var last: Directory?
        for id in path {
            if let open = state.withLock({ $0.open[id] }) {
                last = open
                continue
            }
            let opened =
                if let last { try last.directory(id.name, creating: creating) } else {
                    try openRoot(creating: creating)
                }
            guard let opened else { return nil }
            if id == .temporary, creating, sharesLocks(opened.isOnFUSE), let last, try last.holds("keybag") {
                AbandonedFiles.sweep(opened)
            }
            last = remember(opened, as: id)
        }
        return last
    }

    private func openRoot(creating: Bool) throws(LockboxError) -> Directory? {
        if let refusal = location.refusal { throw refusal }
        if creating {
            try checkHome()
            try checkPlace()
            try makeParents(of: directory)
        }
        let parent = SystemCalls.currentDirectory
        let root = try Directory.open(
            directory,
            at: parent,
            path: directory,
            calls: calls,
            creating: creating
        )
        if root == nil { try checkHome() }
        return root
    }

    /// A home folder that is not there may be on a disk that is not mounted. It hides whether there is a store, and is not made.
    private func checkHome() throws(LockboxError) {
        guard let home = location.home, directory.hasPrefix("\(home)/") else { return }
        var status = stat()
        if calls.stat("\(home)/.", at: SystemCalls.currentDirectory, &status) != -Int(ENOENT) { return }
        throw LockboxError.invalidLocation(
            location: home,
            reason: "the home folder does not exist; create it, or set HOME or LOCKBOX_DIRECTORY"
        )
    }

    /// Returns an open folder to write to. Creates it if it does not exist.
    func folderForWriting(_ id: FolderID) throws(LockboxError) -> Directory {
        guard let folder = try folder(id, creating: true) else {
            throw LockboxError.storageFailure(operation: "open", path: .other(directory), errno: ENOENT)
        }
        if !sharesLocks(folder.isOnFUSE) { throw unsharedLocks }
        return folder
    }

    private func remember(_ folder: Directory, as id: FolderID) -> Directory {
        state.withLock { state in
            if let first = state.open[id] { return first }
            if state.open.count >= Self.maximumOpen { Self.keepRoot(&state.open) }
            state.open[id] = folder
            return folder
        }
    }

    /// Checks the folder in which new ones will be made.
    private func checkPlace() throws(LockboxError) {
        var path = directory
        var status = stat()
        while calls.stat("\(path)/.", at: SystemCalls.currentDirectory, &status) != 0 {
            if path.isEmpty { return }
            path = Path.parent(of: path)
        }
        if path == directory { return }
        // sudo may leave the home folder of another user in the environment, who could make nothing beside root's folders.
        if calls.world.user == 0, status.st_uid != 0, location.isInHome || isInHome(of: status.st_uid, path) {
            throw LockboxError.unsafePermissions(
                path: .other(path),
                reason:
                    "it belongs to user \(status.st_uid), and this process runs as 0; run it as the owner, or name another folder"
            )
        }
        let file = calls.open("\(path)/.", at: SystemCalls.currentDirectory, O_RDONLY | O_DIRECTORY)
        if file < 0 { return }
        defer { calls.close(CInt(file)) }
        if !sharesLocks(calls.isOnFUSE(CInt(file))) { throw unsharedLocks }
    }

    private func isInHome(of user: uid_t, _ path: String) -> Bool {
        guard let home = try? HomeFolder.ofUser(user, in: "/etc/passwd"), home.utf8.count > 1 else {
            return false
        }
        let here = SystemCalls.currentDirectory
        var (root, status) = (stat(), stat())
        guard calls.stat("\(home)/.", at: here, &root) == 0 else { return false }
        var path = path
        while !path.isEmpty {
            // The home folder may be a link.
            if calls.stat("\(path)/.", at: here, &status) == 0, FileIdentity(status) == FileIdentity(root) {
                return true
            }
            path = Path.parent(of: path)
        }
        return false
    }

    /// Whether every writer sees the locks of the others.
    private func sharesLocks(_ isOnFUSE: Bool) -> Bool {
        !isOnFUSE || isForOneMachine || (try? Environment["LOCKBOX_ONE_MACHINE"]) == "1"
    }

    private var unsharedLocks: LockboxError {
        .readOnly(
            location: directory,
            reason:
                "it is on a FUSE file system, and another mount would not see its locks; if only this machine uses the "
                + "store, through one path, set LOCKBOX_ONE_MACHINE=1"
        )
    }

    private func makeParents(of path: String) throws(LockboxError) {
        let parent = Path.parent(of: path)
        if parent.isEmpty { return }
        func make() -> Int { calls.mkdir(parent, at: SystemCalls.currentDirectory, mode: 0o700) }
        var result = make()
        if result == -Int(ENOENT) {
            try makeParents(of: parent)
            result = make()
        }
        if result >= 0 { return try calls.synchronizeParent(of: parent) }
        if result == -Int(EEXIST) { return }
        // `mkdir` on an existing folder can fail with another error if its parent does not allow writing.
        var status = stat()
        if calls.stat(parent, at: SystemCalls.currentDirectory, &status) == 0 { return }
        try check(result, "mkdir", parent)
    }

    /// Makes a folder survive a power cut. The process that made it may have been killed before its own fsync.
    func synchronize(above id: FolderID) throws(LockboxError) {
        if id == .root {
            // If this user may not open the parent, an administrator made the store's folder in it.
            do { try calls.synchronizeParent(of: directory) } catch {
                if !error.isRefusal { throw error }
            }
        }
        var id = id
        while let parent = id.parent {
            try folderForWriting(parent).synchronize()
            id = parent
        }
    }

    // MARK: Moved stores

    /// Returns the folder that is at the path now, or nil if there is none.
    ///
    /// - Parameter time: If the path was checked within that time, it is not checked again.
    func current(_ id: FolderID, within time: Duration = .zero) throws(LockboxError) -> Directory? {
        let now = calls.world.uptime
        let recent = state.withLock { state in
            // Another thread may have checked after this one read the clock.
            time == .zero ? nil : state.recent.first { $0.id == id && now < $0.time + time }?.folder
        }
        if let recent { return recent }
        let folder = try folder(id, creating: false)
        // If there is none, it may be in a folder that has replaced the open one above it.
        guard let (open, openID) = folder.map({ ($0, id) }) ?? nearestOpen(above: id) else { return nil }
        if try isInPlace(open, openID) { return folder }
        try reopen()
        return try self.folder(id, creating: false)
    }

    private func nearestOpen(above id: FolderID) -> (Directory, FolderID)? {
        state.withLock { state in
            var next = id.parent
            while let id = next {
                if let folder = state.open[id] { return (folder, id) }
                next = id.parent
            }
            return nil
        }
    }

    private func noteIsInPlace(_ folder: Directory, _ id: FolderID, at time: Duration) {
        state.withLock { state in
            state.recent.removeAll { $0.id == id }
            if state.recent.count == 4 { state.recent.removeFirst() }
            state.recent.append((id, folder, time))
        }
    }

    /// Returns whether the folder's path still leads to it.
    func isInPlace(_ folder: Directory, _ id: FolderID) throws(LockboxError) -> Bool {
        let now = calls.world.uptime
        guard let root = state.withLock({ $0.open[.root] }) else { return false }
        var links = [(FolderID.root, root, directory, SystemCalls.currentDirectory)]
        if id != .root { links.append((id, folder, id.path, root.descriptor)) }
        for (id, folder, path, parent) in links {
            var status = stat()
            let result = calls.stat(path, at: parent, &status)
            if result == -Int(ENOENT) { return false }
            // On a network, its server has another one there.
            if result == -Int(ESTALE) { throw LockboxError.storeReplaced(location: folder.path) }
            try check(result, "stat", folder.path)
            guard FileIdentity(status) == folder.identity else { return false }
            noteIsInPlace(folder, id, at: now)
        }
        return id != .root || folder === root
    }

    /// Closes folders that are no longer at their paths.
    ///
    /// - Throws: `storeReplaced` if the store's path no longer leads to a store. A file system may have been unmounted, and no
    ///   new store must be created in its place.
    func reopen() throws(LockboxError) {
        var status = stat()
        let keybag = calls.stat("\(directory)/keybag", at: SystemCalls.currentDirectory, &status)
        let isStore = state.withLock { state in
            guard let root = state.open[.root] else { return true }
            var status = stat()
            let result = calls.stat(directory, at: SystemCalls.currentDirectory, &status)
            if result == 0, FileIdentity(status) == root.identity {
                Self.keepRoot(&state.open)
                return true
            }
            if keybag == 0 { state.open = [:] }
            return keybag == 0
        }
        if !isStore { throw LockboxError.storeReplaced(location: directory) }
    }

    // MARK: Descriptors

    /// An eighth of the process's descriptors, and at most 64.
    static let maximumOpen = world.descriptorLimit.map { Int(min(64, max(4, $0 / 8))) } ?? 4

    /// The root stays open: it is what the path must still lead to.
    private static func keepRoot(_ open: inout [FolderID: Directory]) {
        open = open.filter { $0.key == .root }
    }
}
