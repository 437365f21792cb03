import LockboxPlatform

/// Files and folders as a disk and a kernel hold them: what programs see, and what a power cut leaves.
///
/// What a power cut leaves is the worst that ext4, xfs and btrfs allow: bytes count as written after `fsync` of the file, and names
/// after `fsync` of their folder. Of the rest, any part may be there; a rename is there as a whole or not at all.
package final class SimulatedFiles {
    final class Inode {
        let number: Int
        var mode: mode_t
        var modified = Duration.zero
        /// Of a file or a link.
        var bytes: [UInt8] = []
        /// What was synchronized last. Nil for a file that never was.
        var durableBytes: [UInt8]?
        var isDirty = false
        var entries: [String: Inode] = [:]
        var durableEntries: [String: Inode] = [:]
        weak var parent: Inode?
        var formerName: String?
        /// The open files that have the lock.
        var lock: (isShared: Bool, holders: [OpenFile]) = (true, [])
        var opened: [ObjectIdentifier: OpenFile] = [:]

        init(_ number: Int, _ mode: mode_t) { (self.number, self.mode) = (number, mode) }

        var kind: mode_t { mode & S_IFMT }
        var isFolder: Bool { kind == S_IFDIR }
    }

    final class OpenFile {
        let inode: Inode
        var offset = 0
        var references = 1
        var isWaiting = false

        init(_ inode: Inode) {
            self.inode = inode
            inode.opened[ObjectIdentifier(self)] = self
        }

        /// One descriptor less. The last one releases the lock.
        func release() {
            references -= 1
            guard references == 0 else { return }
            unlock()
            inode.opened[ObjectIdentifier(self)] = nil
        }

        func unlock() { inode.lock.holders.removeAll { $0 === self } }
    }

    /// A change of names that is not durable yet.
    private struct Change {
        var names: [(folder: Inode, name: String, inode: Inode?)]
    }

    let root: Inode
    private var pending: [Change] = []
    private var lastNumber = 1

    package init() {
        root = Inode(1, S_IFDIR | 0o755)
        root.parent = root
    }

    // MARK: Names

    func make(_ mode: mode_t, at time: Duration) -> Inode {
        lastNumber += 1
        let inode = Inode(lastNumber, mode)
        inode.modified = time
        return inode
    }

    func change(_ names: [(folder: Inode, name: String, inode: Inode?)], at time: Duration) {
        for (folder, name, inode) in names {
            folder.entries[name] = inode
            if let inode, inode.isFolder { inode.parent = folder }
            folder.modified = time
        }
        pending.append(Change(names: names))
    }

    /// Finds the folder of a path, and the last name in it. Follows links, the last one too if `following`.
    func find(_ path: String, from start: Inode, following: Bool) -> Result<
        (folder: Inode, name: String, inode: Inode?), Failure
    > {
        var folder = path.utf8.first == UInt8(ascii: "/") ? root : start
        var parts = path.split(separator: "/").reversed().map(String.init)
        let wantsFolder = path.utf8.last == UInt8(ascii: "/")
        var links = 0
        if parts.isEmpty { return .success((folder, ".", folder)) }
        while let name = parts.popLast() {
            guard folder.isFolder else { return .failure(Failure(ENOTDIR)) }
            if name == "." || name == ".." {
                if name == ".." { folder = folder.parent ?? root }
                if parts.isEmpty { return .success((folder, ".", folder)) }
                continue
            }
            let inode = folder.entries[name]
            if let inode, inode.kind == S_IFLNK, following || !parts.isEmpty {
                links += 1
                if links > 40 { return .failure(Failure(ELOOP)) }
                let target = String(decoding: inode.bytes, as: UTF8.self)
                if target.utf8.first == UInt8(ascii: "/") { folder = root }
                parts += target.split(separator: "/").reversed().map(String.init)
                continue
            }
            if parts.isEmpty {
                if wantsFolder, let inode, !inode.isFolder { return .failure(Failure(ENOTDIR)) }
                return .success((folder, name, inode))
            }
            guard let inode else { return .failure(Failure(ENOENT)) }
            folder = inode
        }
        return .success((folder, ".", folder))
    }

    struct Failure: Error {
        let code: CInt
        init(_ code: CInt) { self.code = code }
        var result: Int { -Int(code) }
    }

    // MARK: What survives

    /// Whether a power cut may take away what programs have seen, besides temporary files.
    var isAnythingPending: Bool {
        pending.contains { $0.names.contains { !$0.name.hasPrefix("lockbox-") } }
    }

    func synchronize(_ inode: Inode) {
        if !inode.isFolder {
            inode.durableBytes = inode.bytes
            inode.isDirty = false
            return
        }
        var kept: [Change] = []
        let changes = pending
        pending = []
        for change in changes {
            guard change.names.contains(where: { $0.folder === inode }) else {
                kept.append(change)
                continue
            }
            apply(change, after: &kept)
        }
        pending = kept
    }

    /// Writes everything to the disk, as the kernel does in time.
    func settle() {
        var none: [Change] = []
        for change in pending { apply(change, after: &none) }
        pending = []
        settle(root)
    }

    private func settle(_ inode: Inode) {
        if inode.isFolder {
            for entry in inode.entries.values { settle(entry) }
        } else {
            inode.durableBytes = inode.bytes
            inode.isDirty = false
        }
    }

    /// Makes a change durable. Earlier ones of the same names are durable, or overtaken.
    private func apply(_ change: Change, after earlier: inout [Change]) {
        for (folder, name, inode) in change.names {
            folder.durableEntries[name] = inode
            for index in earlier.indices {
                earlier[index].names.removeAll { $0.folder === folder && $0.name == name }
            }
        }
        earlier.removeAll { $0.names.isEmpty }
    }

    func cutPower(_ random: inout SimulatedRandom) {
        let mode = random.below(4)
        let count = random.below(pending.count + 1)
        var none: [Change] = []
        for (index, change) in pending.enumerated() {
            let survives =
                switch mode {
                case 0: false
                case 1: true
                case 2: index < count
                default: random.happens(50_000)
                }
            if survives { apply(change, after: &none) }
        }
        pending = []
        var seen: Set<Int> = []
        forget(root, &seen, &random)
    }

    private func forget(_ inode: Inode, _ seen: inout Set<Int>, _ random: inout SimulatedRandom) {
        guard seen.insert(inode.number).inserted else { return }
        inode.lock = (true, [])
        inode.opened = [:]
        if inode.isFolder {
            inode.entries = inode.durableEntries
            for name in inode.entries.keys.sorted() {
                let entry = inode.entries[name]!
                if entry.isFolder { entry.parent = inode }
                forget(entry, &seen, &random)
            }
        } else if inode.isDirty || inode.durableBytes == nil {
            inode.bytes = remains(of: inode, &random)
            inode.durableBytes = inode.bytes
            inode.isDirty = false
        }
    }

    private func remains(of inode: Inode, _ random: inout SimulatedRandom) -> [UInt8] {
        switch random.below(4) {
        case 0: inode.durableBytes ?? []
        case 1: inode.bytes
        case 2: [UInt8](repeating: 0, count: inode.bytes.count)
        default: Array(inode.bytes.prefix(4096 * random.below(inode.bytes.count / 4096 + 1)))
        }
    }
}
