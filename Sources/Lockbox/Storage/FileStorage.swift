import Foundation

/// Records as flat files in a folder that only its owner can read.
///
/// ```
/// <directory>/                 0700
///   device-key  keybag  lock   0600
///   tmp/                       files on their way to their names
///   items/<scope>/<record>     a folder for each prefix, a file for each item
///   items/<scope>/lock
/// ```
///
/// A record is written to `tmp`, synchronised, and renamed into its place, whose folder is synchronised then: the
/// name holds the old bytes or the new ones at every instant, also across a power cut. Owner, mode, type and link
/// count of everything are checked before a byte of it is used.
///
/// A store that does not exist yet is empty. The first write makes it.
public final class FileStorage: RecordStorage {
    /// The store's folder, as an absolute path.
    public let directory: String

    private let calls: SystemCalls
    private let lockTimeout: Duration
    private let open = Protected<[Place: Directory]>([:])
    /// Whether leftovers are still to be removed, as nothing may be changed at first.
    private let isUnswept = Protected(false)

    /// Nothing is opened yet.
    ///
    /// - Parameter directory: The store's folder. A relative path is taken from the current directory as it is now.
    public convenience init(directory: String) {
        self.init(directory: directory, calls: SystemCalls())
    }

    init(directory: String, calls: SystemCalls, lockTimeout: Duration = .seconds(30)) {
        self.directory = StoreLocation.absolute(directory)
        self.calls = calls
        self.lockTimeout = lockTimeout
    }

    // MARK: Reading

    /// See ``RecordStorage/read(_:upTo:maximum:_:)``.
    public func read(
        _ record: RecordName,
        upTo limit: Int,
        maximum: Int,
        _ body: (UnsafeMutableRawBufferPointer) throws -> Void
    ) throws -> Bool {
        let place = Place(scope: record.scope)
        guard let folder = try folder(place, creating: false) else { return false }
        if try folder.readFile(record.name, upTo: limit, maximum: maximum, body) { return true }
        guard let current = try currentFolder(place), current !== folder else { return false }
        return try current.readFile(record.name, upTo: limit, maximum: maximum, body)
    }

    /// See ``RecordStorage/names(scope:)``.
    public func names(scope: String) throws -> [String] {
        try currentFolder(.scope(scope))?.names().filter { $0 != DirectoryLock.fileName } ?? []
    }

    /// See ``RecordStorage/scopes()``.
    public func scopes() throws -> [String] {
        try currentFolder(.items)?.names() ?? []
    }

    /// See ``RecordStorage/revision(of:)``.
    public func revision(of record: RecordName) throws -> RecordRevision? {
        guard let folder = try currentFolder(Place(scope: record.scope)) else { return nil }
        var status = stat()
        let result = calls.stat(record.name, at: folder.descriptor, &status)
        if result == -Int(ENOENT) { return nil }
        try check(result, "stat", folder.filePath(record.name))
        #if canImport(Darwin)
            let changed = status.st_ctimespec
        #else
            let changed = status.st_ctim
        #endif
        let identity = FileIdentity(status)
        return RecordRevision(
            identity.device,
            identity.inode,
            Int64(status.st_size),
            Int64(changed.tv_sec),
            Int64(changed.tv_nsec)
        )
    }

    /// The record's path.
    ///
    /// - Parameter record: Which one. It need not be there.
    public func location(of record: RecordName) -> String {
        "\(directory)/\(record.scope.map { "items/\($0)/" } ?? "")\(record.name)"
    }

    /// See ``RecordStorage/strays()``.
    public func strays() throws -> [VerifyReport.Finding] {
        guard let root = try rootAsItIs() else { return [] }
        var report = VerifyReport()
        for name in try root.names() where !["keybag", "device-key", "lock", "items", "tmp"].contains(name) {
            report.add(.foreign, root.filePath(name), "it is none of the store's files")
        }
        do {
            for name in try root.directory("tmp", creating: false)?.names() ?? [] {
                report.add(.leftOver, root.filePath("tmp/\(name)"), "a writer was killed, or is at work")
            }
        } catch let error as LockboxError {
            report.add(error, root.filePath("tmp"))
        }
        for folder in try [root] + scopes().compactMap({ try? folder(.scope($0), creating: false) }) {
            do { try folder.checkFile(DirectoryLock.fileName) } catch let error as LockboxError {
                report.add(error, folder.filePath(DirectoryLock.fileName))
            }
        }
        return report.findings
    }

    /// Without a sweep: leftovers are to be found.
    private func rootAsItIs() throws -> Directory? {
        if let root = open.withLock({ $0[.root] }) { return root }
        guard let root = try openRoot(creating: false) else { return nil }
        isUnswept.withLock { $0 = true }
        open.withLock { $0[.root] = root }
        return root
    }

    // MARK: Writing

    /// See ``RecordStorage/replace(_:_:)``.
    public func replace(_ record: RecordName, _ bytes: [UInt8]) throws {
        let folder = try existingFolder(Place(scope: record.scope))
        let temporary = try existingFolder(.temporary)
        let name = Self.temporaryName(scope: record.scope)
        try temporary.writeFile(name, bytes)
        let renamed = calls.rename(name, at: temporary.descriptor, to: record.name, at: folder.descriptor)
        if renamed < 0 { _ = calls.unlink(name, at: temporary.descriptor) }
        try check(renamed, "rename", folder.filePath(record.name))
        try folder.synchronize()
    }

    /// See ``RecordStorage/remove(_:scope:)``.
    public func remove(_ names: [String], scope: String?) throws {
        guard let folder = try folder(Place(scope: scope), creating: false) else { return }
        var failure: (any Error)?
        for name in names {
            do { try folder.removeFile(name) } catch {
                failure = error
                break
            }
        }
        // Also if nothing was there: who removed it may have been killed before it could synchronise. And what has
        // been removed stays removed, also if more was to go.
        try folder.synchronize()
        if let failure { throw failure }
    }

    /// See ``RecordStorage/withLock(on:_:)``. Waits at most 30 seconds.
    public func withLock<Result>(on scope: String?, _ body: () throws -> Result) throws -> Result {
        let folder = try folderInPlace(Place(scope: scope))
        if scope != nil { sweepOnce() }  // who takes the root's lock may only be waiting
        return try folder.writers.withLock {
            let lock = try DirectoryLock.acquire(folder, timeout: lockTimeout)
            defer { lock.release() }
            return try body()
        }
    }

    // MARK: Folders

    private enum Place: Hashable {
        case root, temporary, items
        case scope(String)

        init(scope: String?) { self = scope.map(Place.scope) ?? .root }
    }

    private static let maximumOpenFolders = 256

    /// An open folder of the store; nil if there is none and none is to be made.
    private func folder(_ place: Place, creating: Bool) throws -> Directory? {
        if let folder = open.withLock({ $0[place] }) { return folder }
        guard let folder = try openFolder(place, creating: creating) else { return nil }
        return open.withLock { open in
            if let first = open[place] { return first }
            if open.count >= Self.maximumOpenFolders { Self.keepRoot(&open) }
            open[place] = folder
            return folder
        }
    }

    private func existingFolder(_ place: Place) throws -> Directory {
        guard let folder = try folder(place, creating: true) else {
            throw LockboxError.storageFailure(operation: "open", path: directory, errno: ENOENT)
        }
        return folder
    }

    private func openFolder(_ place: Place, creating: Bool) throws -> Directory? {
        switch place {
        case .root:
            if creating { try makeParents(of: directory) }
            let root = try openRoot(creating: creating)
            if let root { try? sweep(root) }
            return root
        case .items: return try folder(.root, creating: creating)?.directory("items", creating: creating)
        case .temporary: return try folder(.root, creating: creating)?.directory("tmp", creating: creating)
        case .scope(let name):
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
        let parent = Directory.parentPath(of: path)
        if parent.isEmpty { return }
        let result = calls.mkdir(parent, at: SystemCalls.currentDirectory, mode: 0o700)
        if result >= 0 { return try Directory.synchronizeParent(of: parent, calls: calls) }
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

    /// The folder, for reading. One that was removed since it was opened is looked for again: it may have been made
    /// anew.
    private func currentFolder(_ place: Place) throws -> Directory? {
        guard let folder = try folder(place, creating: false) else { return nil }
        var status = stat()
        try check(calls.fstat(folder.descriptor, &status), "fstat", folder.path)
        if status.st_nlink > 0 { return folder }
        forget()
        return try self.folder(place, creating: false)
    }

    /// The folder, for writing: made if it is not there, and the one that its path leads to now.
    private func folderInPlace(_ place: Place) throws -> Directory {
        let root = try existingFolder(.root)
        // A process must not go on writing to a store that was moved away and perhaps replaced by another.
        let result = try isInPlace(root, directory, at: SystemCalls.currentDirectory)
        try check(result ? 0 : -Int(ESTALE), "stat", directory)
        let folder = try existingFolder(place)
        guard case .scope(let name) = place else { return folder }
        if try isInPlace(folder, "items/\(name)", at: root.descriptor) { return folder }
        forget()
        return try existingFolder(place)
    }

    private func isInPlace(_ folder: Directory, _ path: String, at directory: CInt) throws -> Bool {
        var status = stat()
        let result = calls.stat(path, at: directory, &status)
        if result == -Int(ENOENT) { return false }
        try check(result, "stat", folder.path)
        return FileIdentity(status) == folder.identity
    }

    private func forget() { open.withLock { Self.keepRoot(&$0) } }

    /// The root stays open: another one would be swept.
    private static func keepRoot(_ open: inout [Place: Directory]) { open = open.filter { $0.key == .root } }

    // MARK: Leftovers

    /// `<scope or "root">.<random>`: the scope's lock is held while the file is there.
    private static func temporaryName(scope: String?) -> String {
        "\(scope ?? rootScope).\(String(UInt64.random(in: .min ... .max), radix: 16))"
    }

    private static let rootScope = "root"

    private func sweepOnce() {
        let isUnswept = isUnswept.withLock { isUnswept in
            defer { isUnswept = false }
            return isUnswept
        }
        if isUnswept { try? sweep(existingFolder(.root)) }
    }

    /// Removes what killed writers left. A temporary file whose lock can be had belongs to nobody.
    private func sweep(_ root: Directory) throws {
        guard let temporary = try root.directory("tmp", creating: false) else { return }
        let items = try root.directory("items", creating: false)
        for name in try temporary.names() {
            let scope = String(name.prefix { $0 != "." })
            // A writer makes its scope's folder first: where there is none, there is no writer.
            let folder = try? items?.directory(scope, creating: false) ?? root
            guard let folder, let lock = try? DirectoryLock.attempt(folder) else { continue }
            _ = calls.unlink(name, at: temporary.descriptor)
            lock.release()
        }
    }
}
