import CLinux
@_spi(Extensions) package import LockboxCore
import LockboxPlatform

/// Reports changes of the entries of a folder, which need not exist yet, with inotify(7).
///
/// Also watches the folders above it, so that it notices when one of them is created, moved or replaced.
package final class FolderWatch: Sendable {
    /// The folder, after the folders above it that are watched too.
    private let paths: [String]
    private let stop: CInt
    private let world: any World

    /// - Parameters:
    ///   - path: The folder. An absolute path.
    ///   - depth: How many folders above it may be moved or replaced.
    /// - Throws: `notSupported` on a system other than Linux.
    package init(_ path: String, depth: Int) throws(LockboxError) {
        var paths = [path]
        while paths.count <= depth, let first = paths.first, first != "/" {
            paths.insert(Self.parent(of: first), at: 0)
        }
        self.paths = paths
        world = LockboxPlatform.world
        stop = CInt(try Self.checked(world.openStop(), "eventfd", path: path))
    }

    deinit { _ = world.close(stop) }

    /// Ends the reports.
    package func cancel() { world.stop(stop) }

    /// Begins to watch, and reports in a thread of its own until ``cancel()`` is called. Nothing is reported
    /// after a failure.
    package func start(
        _ report: @escaping @Sendable (Result<RecordNotice, any Error>) -> Void
    ) throws(LockboxError) {
        let watches = try Watches(paths)
        try detachThread {
            do { try self.run(watches, report) } catch { report(.failure(error)) }
        }
    }

    private func run(
        _ first: Watches,
        _ report: (Result<RecordNotice, any Error>) -> Void
    ) throws(LockboxError) {
        var watches = first
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 8)
        defer { buffer.deallocate() }
        while true {
            let length = world.readWatch(watches.descriptor, stop, into: buffer)
            guard try Self.checked(length, "poll", path: paths[paths.count - 1]) > 0 else { return }
            guard let names = watches.names(UnsafeRawBufferPointer(buffer.part(..<length))) else {
                // New watches first: what changes before them is what this report is about.
                watches = try Watches(paths)
                report(.success(.everything))
                continue
            }
            if !names.isEmpty { report(.success(.records(names))) }
        }
    }

    private static func parent(of path: String) -> String {
        let parent = Path.parent(of: path)
        return parent.isEmpty ? "/" : parent
    }

    @discardableResult
    private static func checked(_ result: Int, _ operation: String, path: String) throws(LockboxError)
        -> Int
    {
        if result == -Int(ENOSYS) { throw LockboxError.notSupported(operation: "observing changes") }
        return try check(result, operation, path)
    }

    /// The folders that are watched now: the folder itself if it exists, and those above it.
    private final class Watches: Sendable {
        let descriptor: CInt
        /// For each watch the name that counts in it, or nil for the folder itself, where each one does.
        private let names: [CInt: String?]
        private let world: any World

        init(_ paths: [String]) throws(LockboxError) {
            world = LockboxPlatform.world
            descriptor = CInt(try FolderWatch.checked(world.openWatch(), "inotify_init1", path: paths[0]))
            var names: [CInt: String?] = [:]
            do { try Self.add(paths, descriptor, to: &names) } catch {
                _ = world.close(descriptor)
                throw error
            }
            self.names = names
        }

        deinit { _ = world.close(descriptor) }

        /// Watches each folder before it looks for the next one, so that none is created unnoticed.
        private static func add(_ paths: [String], _ descriptor: CInt, to names: inout [CInt: String?])
            throws(LockboxError)
        {
            for (index, path) in paths.enumerated() {
                let result = LockboxPlatform.world.addWatch(descriptor, path)
                let isAbsent = result == -Int(ENOENT) || result == -Int(ENOTDIR)
                // Moves of a folder in one that may not be read go unnoticed.
                if result == -Int(EACCES) || result == -Int(EPERM), index + 1 < paths.count { continue }
                if isAbsent, index > 0 { return }
                if isAbsent {
                    // The folder above the first one has to be watched until there is a first one.
                    return try add([FolderWatch.parent(of: path)] + paths, descriptor, to: &names)
                }
                let watch = CInt(try FolderWatch.checked(result, "inotify_add_watch", path: path))
                names[watch] = index + 1 < paths.count ? Path.name(of: paths[index + 1]) : .some(nil)
            }
        }

        /// Returns the changed entries of the folder, or nil if anything may have changed.
        func names(_ events: UnsafeRawBufferPointer) -> Set<String>? {
            var changed: Set<String> = []
            var offset = 0
            while offset < events.count {
                let event = folder_event_at(events.baseAddress, offset)
                offset = event.next
                if event.kind != folder_event_entry { return nil }
                let name = String(cString: event.name)
                switch names[event.watch] {
                case .some(.some(let next)): if next == name { return nil }
                case .some(.none): changed.insert(name)
                case .none: break
                }
            }
            return changed
        }
    }
}
