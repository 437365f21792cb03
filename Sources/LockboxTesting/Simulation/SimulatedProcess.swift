package import LockboxPlatform

/// A process of a ``SimulatedMachine``, with descriptors and an environment of its own.
///
/// A killed process makes no more calls that have an effect: each one fails, and no time passes, until its threads have ended.
package final class SimulatedProcess: World, @unchecked Sendable {
    // Unchecked: only the thread that runs accesses it.
    typealias OpenFile = SimulatedFiles.OpenFile
    private typealias Inode = SimulatedFiles.Inode

    package let machine: SimulatedMachine
    package let number: Int
    private let environment: [String: String]
    private var descriptors: [CInt: OpenFile] = [:]
    /// In the place of static ones.
    private var values: [ObjectIdentifier: AnyObject] = [:]
    package private(set) var isDead = false
    var stoppedUntil = Duration.zero
    /// The time that a dead process believes to have passed.
    private var afterlife = Duration.zero

    package init(
        _ machine: SimulatedMachine,
        _ number: Int,
        environment: [String: String] = ["HOME": "/home"]
    ) {
        self.machine = machine
        self.number = number
        self.environment = environment
    }

    /// Begins a thread of this process.
    package func begin(_ body: @escaping @Sendable () -> Void) {
        let result = machine.begin(self, body)
        precondition(result == 0, "pthread_create: \(result)")
    }

    /// Ends it: of its own accord, killed, or with the machine.
    func die() {
        isDead = true
        for file in descriptors.values { file.release() }
        descriptors = [:]
        machine.keys.endProcess(number)
    }

    // MARK: Calls

    /// What a call returns whose process is dead.
    static let dead = -Int(EIO)

    func call(
        _ name: @autoclosure () -> String,
        failing codes: [CInt] = [],
        weight: Int = 1,
        _ body: () -> Int
    ) -> Int {
        guard machine.step(self, name(), weight: weight) else { return Self.dead }
        if !codes.isEmpty, machine.fails() { return -Int(codes[machine.random.below(codes.count)]) }
        return body()
    }

    private func folder(_ directory: CInt) -> Inode? {
        directory == AT_FDCWD ? machine.files.root : descriptors[directory]?.inode
    }

    private func found(
        _ path: String,
        _ directory: CInt,
        following: Bool,
        _ body: (Inode, String, Inode?) -> Int
    ) -> Int {
        guard let start = folder(directory) else { return -Int(EBADF) }
        switch machine.files.find(path, from: start, following: following) {
        case .failure(let failure): return failure.result
        case .success(let (folder, name, inode)):
            guard folder.isFolder else { return -Int(ENOTDIR) }
            return body(folder, name, inode)
        }
    }

    private func existing(_ path: String, _ directory: CInt, following: Bool, _ body: (Inode) -> Int) -> Int {
        found(path, directory, following: following) { _, _, inode in inode.map(body) ?? -Int(ENOENT) }
    }

    private func with(_ file: CInt, _ body: (OpenFile) -> Int) -> Int {
        descriptors[file].map(body) ?? -Int(EBADF)
    }

    func descriptor(of file: OpenFile) -> Int {
        var next: CInt = 3
        while descriptors[next] != nil { next += 1 }
        descriptors[next] = file
        return Int(next)
    }

    // MARK: Files

    package func open(_ path: String, at directory: CInt, _ flags: CInt, mode: mode_t) -> Int {
        call("open \(path)", failing: flags & O_CREAT == 0 ? [EMFILE, EIO] : [EMFILE, ENOSPC, EIO]) {
            found(path, directory, following: flags & O_NOFOLLOW == 0) { folder, name, inode in
                if let inode {
                    if flags & (O_CREAT | O_EXCL) == O_CREAT | O_EXCL { return -Int(EEXIST) }
                    if inode.kind == S_IFLNK { return -Int(ELOOP) }
                    if flags & O_DIRECTORY != 0, !inode.isFolder { return -Int(ENOTDIR) }
                    if inode.isFolder, flags & O_ACCMODE != O_RDONLY { return -Int(EISDIR) }
                    if flags & O_TRUNC != 0 { write(to: inode) { $0 = [] } }
                    return descriptor(of: OpenFile(inode))
                }
                guard flags & O_CREAT != 0 else { return -Int(ENOENT) }
                let new = machine.files.make(S_IFREG | (mode & ~0o022), at: machine.date)
                machine.files.change([(folder, name, new)], at: machine.date)
                return descriptor(of: OpenFile(new))
            }
        }
    }

    package func mkdir(_ path: String, at directory: CInt, mode: mode_t) -> Int {
        call("mkdir \(path)", failing: [ENOSPC, EIO]) {
            found(path, directory, following: false) { folder, name, inode in
                if inode != nil { return -Int(EEXIST) }
                let new = machine.files.make(S_IFDIR | (mode & ~0o022), at: machine.date)
                new.parent = folder
                machine.files.change([(folder, name, new)], at: machine.date)
                return 0
            }
        }
    }

    package func fstat(_ file: CInt, _ status: inout stat) -> Int {
        call("fstat \(file)", failing: [EIO]) { with(file) { Self.fill(&status, $0.inode) } }
    }

    package func stat(_ path: String, at directory: CInt, _ status: inout stat, followingLinks: Bool) -> Int {
        call("stat \(path)", failing: [EIO]) {
            existing(path, directory, following: followingLinks) { Self.fill(&status, $0) }
        }
    }

    package func access(_ path: String, _ mode: CInt) -> Int {
        call("access \(path)") { existing(path, AT_FDCWD, following: true) { _ in 0 } }
    }

    private static func fill(_ status: inout stat, _ inode: Inode) -> Int {
        status = LockboxPlatform.stat()
        status.st_dev = 1
        status.st_ino = ino_t(inode.number)
        status.st_mode = inode.mode
        status.st_uid = 1000
        status.st_gid = 1000
        // Other names are not counted: of what is played, nothing asks.
        status.st_nlink = 1
        status.st_size = off_t(inode.bytes.count)
        let (seconds, attoseconds) = inode.modified.components
        setTimes(&status, timespec(tv_sec: Int(seconds), tv_nsec: Int(attoseconds / 1_000_000_000)))
        return 0
    }

    package func read(_ file: CInt, into buffer: UnsafeMutableRawBufferPointer, at offset: Int?) -> Int {
        call("read \(file)", failing: [EIO, EINTR]) {
            with(file) { open in
                if open.inode.isFolder { return -Int(EISDIR) }
                let start = min(offset ?? open.offset, open.inode.bytes.count)
                let count = short(min(buffer.count, open.inode.bytes.count - start), orAll: offset != nil)
                buffer.copyBytes(from: open.inode.bytes[start..<(start + count)])
                if offset == nil { open.offset += count }
                return count
            }
        }
    }

    package func write(_ file: CInt, _ bytes: UnsafeRawBufferPointer, at offset: Int?) -> Int {
        call("write \(file), \(bytes.count)", failing: [ENOSPC, EIO, EINTR]) {
            with(file) { open in
                let count = short(bytes.count, orAll: offset != nil)
                let start = offset ?? open.offset
                write(to: open.inode) { old in
                    if old.count < start + count {
                        old += [UInt8](repeating: 0, count: start + count - old.count)
                    }
                    old.replaceSubrange(start..<(start + count), with: bytes[..<count])
                }
                if offset == nil { open.offset += count }
                return count
            }
        }
    }

    /// A read or a write may end earlier, but not before its first byte.
    private func short(_ count: Int, orAll isWhole: Bool) -> Int {
        !isWhole && count > 1 && machine.fails() ? 1 + machine.random.below(count - 1) : count
    }

    private func write(to inode: Inode, _ body: (inout [UInt8]) -> Void) {
        body(&inode.bytes)
        inode.isDirty = true
        inode.modified = machine.date
    }

    package func seek(_ file: CInt, to offset: Int?) -> Int {
        call("seek \(file)") {
            with(file) { open in
                if let offset { open.offset = offset }
                return open.offset
            }
        }
    }

    package func truncate(_ file: CInt, to length: Int) -> Int {
        call("truncate \(file)", failing: [EIO]) {
            with(file) { open in
                write(to: open.inode) { $0 = Array($0.prefix(length)) }
                return 0
            }
        }
    }

    package func synchronize(_ file: CInt) -> Int {
        // Before it, what others see already may still be lost.
        call("fsync \(file)", failing: [EIO, ENOSPC], weight: 10) {
            with(file) { open in
                if machine.defect != (open.inode.isFolder ? .noFolderSynchronization : .noFileSynchronization)
                {
                    machine.files.synchronize(open.inode)
                }
                machine.happenAfterSynchronization()
                return isDead ? Self.dead : 0
            }
        }
    }

    package func duplicate(_ file: CInt) -> Int {
        call("dup \(file)", failing: [EMFILE]) {
            with(file) { open in
                open.references += 1
                return descriptor(of: open)
            }
        }
    }

    package func close(_ file: CInt) -> Int {
        call("close \(file)") {
            with(file) { open in
                descriptors[file] = nil
                open.release()
                return machine.fails() ? -Int(EIO) : 0
            }
        }
    }

    package func rename(_ old: String, at oldDirectory: CInt, to new: String, at newDirectory: CInt) -> Int {
        call("rename \(old) \(new)", failing: [EIO, ENOSPC]) {
            found(old, oldDirectory, following: false) { oldFolder, oldName, inode in
                guard let inode else { return -Int(ENOENT) }
                return found(new, newDirectory, following: false) { newFolder, newName, replaced in
                    if replaced === inode { return 0 }
                    if let replaced, replaced.isFolder != inode.isFolder {
                        return -Int(replaced.isFolder ? EISDIR : ENOTDIR)
                    }
                    if let replaced, replaced.isFolder, !replaced.entries.isEmpty { return -Int(ENOTEMPTY) }
                    machine.files.change(
                        [(oldFolder, oldName, nil), (newFolder, newName, inode)],
                        at: machine.date
                    )
                    inode.formerName = oldName
                    return 0
                }
            }
        }
    }

    package func unlink(_ path: String, at directory: CInt, isFolder: Bool) -> Int {
        call("unlink \(path)", failing: [EIO]) {
            found(path, directory, following: false) { folder, name, inode in
                guard let inode else { return -Int(ENOENT) }
                if inode.isFolder, !isFolder { return -Int(EISDIR) }
                if !inode.isFolder, isFolder { return -Int(ENOTDIR) }
                if inode.isFolder, !inode.entries.isEmpty { return -Int(ENOTEMPTY) }
                machine.files.change([(folder, name, nil)], at: machine.date)
                return 0
            }
        }
    }

    package func readLink(_ path: String, at directory: CInt, _ target: inout [UInt8]) -> Int {
        call("readlink \(path)", failing: [EIO]) {
            existing(path, directory, following: false) { inode in
                guard inode.kind == S_IFLNK else { return -Int(EINVAL) }
                target += inode.bytes
                return inode.bytes.count
            }
        }
    }

    package func chmod(_ path: String, at directory: CInt, mode: mode_t) -> Int {
        call("chmod \(path)", failing: [EIO]) {
            existing(path, directory, following: false) { inode in
                inode.mode = inode.kind | mode
                return 0
            }
        }
    }

    package func chmod(_ file: CInt, mode: mode_t) -> Int {
        call("fchmod \(file)", failing: [EIO]) {
            with(file) { open in
                open.inode.mode = open.inode.kind | mode
                return 0
            }
        }
    }

    package func chown(_ file: CInt, user: uid_t, group: gid_t) -> Int {
        call("fchown \(file)") { with(file) { _ in 0 } }
    }

    package func lock(_ file: CInt, _ operation: CInt) -> Int {
        var pause = Duration.microseconds(5)
        while true {
            let result = call("flock \(file) \(operation)", failing: operation & LOCK_UN == 0 ? [EINTR] : [])
            {
                machine.defect == .noLocks ? 0 : with(file) { Self.lock($0, operation) }
            }
            if isDead || result != -Int(EWOULDBLOCK) || operation & LOCK_NB != 0 { return result }
            machine.sleep(self, pause)
            pause = min(pause * 2, .milliseconds(20))
        }
    }

    static func lock(_ open: OpenFile, _ operation: CInt) -> Int {
        let inode = open.inode
        open.unlock()
        if operation & LOCK_UN != 0 { return 0 }
        let isShared = operation & LOCK_SH != 0
        if !inode.lock.holders.isEmpty, !isShared || !inode.lock.isShared { return -Int(EWOULDBLOCK) }
        inode.lock = (isShared, inode.lock.holders + [open])
        return 0
    }

    package func setWaiting(_ isWaiting: Bool, _ file: CInt) {
        _ = call("wait \(file) \(isWaiting)") {
            with(file) {
                $0.isWaiting = isWaiting
                return 0
            }
        }
    }

    package func isWaitedFor(_ file: CInt) -> Bool {
        call("is waited for \(file)") {
            with(file) { open in open.inode.opened.values.contains { $0 !== open && $0.isWaiting } ? 1 : 0 }
        } == 1
    }

    package func forEachName(in directory: CInt, _ body: (UnsafeRawBufferPointer) -> Void) -> Int {
        let result = call("readdir \(directory)", failing: [EIO]) {
            with(directory) { open in
                var entries = open.inode.entries.sorted { $0.key < $1.key }
                entries.shuffle(using: &machine.random)
                let listed = open.inode.entries
                defer {
                    // overlayfs may list a file that is just renamed into the folder by its former name.
                    let new = open.inode.entries.first { listed[$0.key] == nil && $0.value.formerName != nil }
                    if let name = new?.value.formerName { Array(name.utf8).withUnsafeBytes(body) }
                }
                for (name, inode) in entries {
                    guard machine.step(self, "readdir \(name)", weight: 10) else { return Self.dead }
                    let now = open.inode.entries[name]
                    // btrfs may leave out a file that is replaced meanwhile.
                    guard now === inode || now != nil && machine.random.happens(50_000) else { continue }
                    Array(name.utf8).withUnsafeBytes(body)
                }
                return 0
            }
        }
        _ = close(directory)
        return result
    }

    package func isOnFUSE(_ file: CInt) -> Bool { false }
    package func hasAccessControlList(_ file: CInt) -> Bool { false }
    package func isTerminal(_ file: CInt) -> Bool { false }
    package func waitForInput(_ file: CInt, atMost time: Duration) -> Int { call("poll \(file)") { 1 } }

    package func resolved(_ path: String, _ error: inout CInt) -> [UInt8]? {
        let result = call("realpath \(path)") { existing(path, AT_FDCWD, following: true) { _ in 0 } }
        error = CInt(-result)
        return result == 0 ? Array(path.utf8) : nil
    }

    package func currentFolder(_ error: inout CInt) -> [UInt8]? { Array("/".utf8) }

    // MARK: Clocks

    package var date: Date {
        let (seconds, attoseconds) = machine.date.components
        return Date(timeIntervalSince1970: Double(seconds) + Double(attoseconds) / 1e18)
    }

    package var uptime: Duration {
        if isDead { afterlife += .seconds(1) }
        return machine.uptime + afterlife
    }

    package var awakeTime: Duration { uptime }

    package func sleep(_ time: Duration) {
        guard machine.step(self, "sleep \(time)") else { return }
        machine.sleep(self, time)
    }

    package func pause(_ time: Duration) async throws {
        machine.sleep(self, time)
        try Task.checkCancellation()
    }

    // MARK: Threads

    package var givesEachTaskAThread: Bool { true }

    package func detach(_ body: @escaping @Sendable () -> Void) -> CInt {
        guard machine.step(self, "pthread_create"), !machine.fails() else { return EAGAIN }
        return machine.begin(self, body)
    }

    package func waitForMutex(_ mutex: UnsafeMutablePointer<pthread_mutex_t>) {
        var pause = Duration.microseconds(1)
        while pthread_mutex_trylock(mutex) != 0 {
            machine.waitEvenIfDead(self, pause)
            pause = min(pause * 2, .milliseconds(20))
        }
    }

    package func wait(
        for condition: UnsafeMutablePointer<pthread_cond_t>,
        _ mutex: UnsafeMutablePointer<pthread_mutex_t>,
        atMost time: Duration
    ) {
        pthread_mutex_unlock(mutex)
        machine.waitEvenIfDead(self, time / (1 + machine.random.below(8)))
        if pthread_mutex_trylock(mutex) != 0 { waitForMutex(mutex) }
    }

    // MARK: The process

    package func own(_ key: ObjectIdentifier, _ make: () -> AnyObject) -> AnyObject? {
        if let value = values[key] { return value }
        let value = make()
        values[key] = value
        return value
    }

    package var randomNumber: UInt64 { machine.random.next() }

    package func variable(_ name: String) -> [UInt8]? { environment[name].map { Array($0.utf8) } }

    package var user: uid_t { 1000 }
    package var group: gid_t { 1000 }
    package var processors: Int { 2 }
    package var descriptorLimit: UInt64? { 1024 }
}
