import LockboxCore
import LockboxFiles
import LockboxPlatform

/// The folders of a store, opened when they are needed, and closed when there are many.
final class StoreFolders: Sendable {
    let directory: String
    let calls: SystemCalls
    private let state = Protected(State())

    private struct State {
        var open: [Place: Directory] = [:] { didSet { recent = [] } }
        /// The few that were looked at last, and when, in nanoseconds: to compare places costs less than to hash one.
        var recent: [(place: Place, folder: Directory, time: UInt64)] = []
        /// Whether leftovers are still to be removed, as nothing may be changed at first.
        var isUnswept = false
    }

    enum Place: Hashable {
        case root, temporary, items
        case namespace(String)

        init(namespace: String?) { self = namespace.map(Place.namespace) ?? .root }
    }

    init(directory: String, calls: SystemCalls) {
        self.directory = Path.absolute(directory)
        self.calls = calls
    }

    // MARK: Opening

    /// An open folder of the store; nil if there is none and none is to be made.
    func folder(_ place: Place, creating: Bool) throws -> Directory? {
        if let folder = state.withLock({ $0.open[place] }) { return folder }
        guard let folder = try openFolder(place, creating: creating) else { return nil }
        return remember(folder, as: place)
    }

    /// An open folder, which is made if it is not there.
    func existing(_ place: Place) throws -> Directory {
        guard let folder = try folder(place, creating: true) else {
            throw LockboxError.storageFailure(operation: "open", path: directory, errno: ENOENT)
        }
        return folder
    }

    /// Without a sweep: leftovers are to be found.
    func rootAsItIs() throws -> Directory? {
        if let root = state.withLock({ $0.open[.root] }) { return root }
        guard let root = try openRoot(creating: false) else { return nil }
        state.withLock { $0.isUnswept = true }
        return remember(root, as: .root)
    }

    func sweepOnce() throws {
        let isUnswept = state.withLock { state in
            defer { state.isUnswept = false }
            return state.isUnswept
        }
        if isUnswept { try? Leftovers.sweep(existing(.root)) }
    }

    private func remember(_ folder: Directory, as place: Place) -> Directory {
        state.withLock { state in
            if let first = state.open[place] { return first }
            if state.open.count >= Self.maximumOpen { Self.keepRoot(&state.open) }
            state.open[place] = folder
            return folder
        }
    }

    private func openFolder(_ place: Place, creating: Bool) throws -> Directory? {
        switch place {
        case .root:
            if creating { try makeParents(of: directory) }
            let root = try openRoot(creating: creating)
            if let root { try? Leftovers.sweep(root) }
            return root
        case .items: return try folder(.root, creating: creating)?.directory("items", creating: creating)
        case .temporary: return try folder(.root, creating: creating)?.directory("tmp", creating: creating)
        case .namespace(let name):
            return try folder(.items, creating: creating)?.directory(name, creating: creating)
        }
    }

    private func openRoot(creating: Bool) throws -> Directory? {
        try Directory.open(
            directory,
            at: SystemCalls.currentDirectory,
            path: directory,
            calls: calls,
            creating: creating
        )
    }

    private func makeParents(of path: String) throws {
        let parent = Path.parent(of: path)
        if parent.isEmpty { return }
        let result = calls.mkdir(parent, at: SystemCalls.currentDirectory, mode: 0o700)
        if result >= 0 { return try calls.synchronizeParent(of: parent) }
        if result == -Int(EEXIST) { return }
        guard result == -Int(ENOENT) else {
            // A parent that exists may forbid making others beside it, and so answer with something else.
            var status = stat()
            if calls.stat(parent, at: SystemCalls.currentDirectory, &status) == 0 { return }
            try check(result, "mkdir", parent)
            return
        }
        try makeParents(of: parent)
        try makeParents(of: path)
    }

    // MARK: What was moved

    /// The folder that is there now; nil if there is none.
    func current(_ place: Place) throws -> Directory? {
        guard let folder = try folder(place, creating: false) else { return nil }
        if try isInPlace(folder, place) { return folder }
        try reopen()
        return try self.folder(place, creating: false)
    }

    /// As ``current(_:)``, and as it was a millisecond ago: one look at the path serves all reads of that time.
    func recent(_ place: Place) throws -> Directory? {
        let now = monotonicTime()
        let recent = state.withLock { state in
            // Another thread may have looked since: its time is a later one.
            state.recent.first { $0.place == place && now < $0.time + 1_000_000 }?.folder
        }
        if let recent { return recent }
        guard let folder = try current(place) else { return nil }
        state.withLock { state in
            state.recent.removeAll { $0.place == place }
            if state.recent.count == 4 { state.recent.removeFirst() }
            state.recent.append((place, folder, now))
        }
        return folder
    }

    /// Whether the path of a folder still leads to it.
    func isInPlace(_ folder: Directory, _ place: Place) throws -> Bool {
        guard let root = state.withLock({ $0.open[.root] }),
            try isInPlace(root, directory, at: SystemCalls.currentDirectory)
        else { return false }
        switch place {
        case .root: return folder === root
        case .items: return try isInPlace(folder, "items", at: root.descriptor)
        case .temporary: return try isInPlace(folder, "tmp", at: root.descriptor)
        case .namespace(let name): return try isInPlace(folder, "items/\(name)", at: root.descriptor)
        }
    }

    private func isInPlace(_ folder: Directory, _ path: String, at parent: CInt) throws -> Bool {
        var status = stat()
        let result = calls.stat(path, at: parent, &status)
        if result == -Int(ENOENT) { return false }
        try check(result, "stat", folder.path)
        return FileIdentity(status) == folder.identity
    }

    /// Forgets folders that are not in their place any more.
    ///
    /// - Throws: `storageFailure` of `stat` with `ESTALE` if there is no store where it was: a file system may have been
    ///   unmounted, and a store must not be made in its place.
    func reopen() throws {
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
        try check(isStore ? 0 : -Int(ESTALE), "stat", directory)
    }

    // MARK: Descriptors

    /// An eighth of what the process may have, and not more than one of these.
    private static let maximumOpen = descriptorLimit.map { Int(min(64, max(4, $0 / 8))) } ?? 4

    /// Runs `body`; if the process or the machine has no descriptor left, once more with those that can be spared.
    func sparingDescriptors<Result>(_ body: () throws -> Result) throws -> Result {
        do { return try body() } catch LockboxError.storageFailure(_, _, let code)
            where code == EMFILE || code == ENFILE
        {
            state.withLock { Self.keepRoot(&$0.open) }
            return try body()
        }
    }

    /// The root stays open: another one would be swept.
    private static func keepRoot(_ open: inout [Place: Directory]) { open = open.filter { $0.key == .root } }
}

private func monotonicTime() -> UInt64 {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
}
