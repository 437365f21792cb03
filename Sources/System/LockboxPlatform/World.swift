/// All that may differ between two runs of a program: files, the kernel's keyring, clocks, random numbers, threads, and what the
/// environment says. Lockbox reaches the system through it alone, so that a simulation can stand in for the system.
///
/// A negative result is `-errno`.
package protocol World: AnyObject, Sendable {
    // MARK: Files

    func open(_ path: String, at directory: CInt, _ flags: CInt, mode: mode_t) -> Int
    func mkdir(_ path: String, at directory: CInt, mode: mode_t) -> Int
    func fstat(_ file: CInt, _ status: inout stat) -> Int
    func stat(_ path: String, at directory: CInt, _ status: inout stat, followingLinks: Bool) -> Int
    /// Whether the process may use a file in the ways of access(2).
    func access(_ path: String, _ mode: CInt) -> Int
    /// Reads at the file's own offset, and moves it, or at another one.
    func read(_ file: CInt, into buffer: UnsafeMutableRawBufferPointer, at offset: Int?) -> Int
    /// Writes at the file's own offset, and moves it, or at another one.
    func write(_ file: CInt, _ bytes: UnsafeRawBufferPointer, at offset: Int?) -> Int
    /// Sets the file's own offset, or returns it.
    func seek(_ file: CInt, to offset: Int?) -> Int
    func truncate(_ file: CInt, to length: Int) -> Int
    /// Writes to the drive what the system keeps in memory.
    func synchronize(_ file: CInt) -> Int
    /// Returns another descriptor of the same open file.
    func duplicate(_ file: CInt) -> Int
    func close(_ file: CInt) -> Int
    func rename(_ old: String, at oldDirectory: CInt, to new: String, at newDirectory: CInt) -> Int
    func unlink(_ path: String, at directory: CInt, isFolder: Bool) -> Int
    /// Appends the target's bytes.
    func readLink(_ path: String, at directory: CInt, _ target: inout [UInt8]) -> Int
    func chmod(_ path: String, at directory: CInt, mode: mode_t) -> Int
    func chmod(_ file: CInt, mode: mode_t) -> Int
    func chown(_ file: CInt, user: uid_t, group: gid_t) -> Int
    /// flock(2)
    func lock(_ file: CInt, _ operation: CInt) -> Int
    /// Says that a caller waits for the lock of an open file, or no longer does.
    func setWaiting(_ isWaiting: Bool, _ file: CInt)
    /// Whether a caller waits for the lock through another open file. Always false where that cannot be told.
    func isWaitedFor(_ file: CInt) -> Bool
    /// Calls `body` with each name in a folder. Closes the descriptor.
    func forEachName(in directory: CInt, _ body: (UnsafeRawBufferPointer) -> Void) -> Int
    func isOnFUSE(_ file: CInt) -> Bool
    func hasAccessControlList(_ file: CInt) -> Bool
    func isTerminal(_ file: CInt) -> Bool
    /// Waits until there is something to read. Returns 0 if there is nothing after that time.
    func waitForInput(_ file: CInt, atMost time: Duration) -> Int
    /// Returns the path without links and dots, or nil and an error.
    func resolved(_ path: String, _ error: inout CInt) -> [UInt8]?
    /// Returns the path of the current folder, or nil and an error.
    func currentFolder(_ error: inout CInt) -> [UInt8]?

    // MARK: The kernel's reports of changed folders

    func openWatch() -> Int
    func openStop() -> Int
    func stop(_ stop: CInt)
    func addWatch(_ watch: CInt, _ path: String) -> Int
    /// Waits for events and reads them. Returns 0 if it was stopped.
    func readWatch(_ watch: CInt, _ stop: CInt, into buffer: UnsafeMutableRawBufferPointer) -> Int

    // MARK: The keyring of the user in the kernel, keyrings(7)

    /// Makes a key in the keyring of this process, where no other process sees it.
    func addKey(_ name: String, length: Int) -> Int
    func findKey(_ name: String) -> Int
    func readKey(_ key: Int32, into buffer: UnsafeMutableRawBufferPointer) -> Int
    /// Replaces what a key holds. Its serial number stays.
    func updateKey(_ key: Int32, _ bytes: UnsafeRawBufferPointer) -> Int
    func setKeyPermissions(_ key: Int32, _ permissions: UInt32) -> Int
    func setKeyTimeout(_ key: Int32, seconds: UInt32) -> Int
    /// Gives a key to the user's processes, in the place of one with the same name.
    func publishKey(_ key: Int32) -> Int
    /// Takes a key out of the keyring of this process.
    func withdrawKey(_ key: Int32) -> Int
    func revokeKey(_ key: Int32) -> Int
    func unlinkKey(_ key: Int32) -> Int
    /// Returns a descriptor that holds the lock of the keyring. Does not wait.
    func lockKeys() -> Int

    // MARK: Clocks

    /// The time of day, which the user can set.
    var date: Date { get }
    /// The time since some instant. Nothing sets it.
    var uptime: Duration { get }
    /// The same without the time in which the machine was suspended.
    var awakeTime: Duration { get }
    func sleep(_ time: Duration)
    /// Sleeps without a thread.
    ///
    /// - Throws: `CancellationError`.
    func pause(_ time: Duration) async throws

    // MARK: Threads

    /// Whether a task runs on a thread of its own, which may block.
    var givesEachTaskAThread: Bool { get }
    /// Runs `body` on a new thread, in this world.
    func detach(_ body: @escaping @Sendable () -> Void) -> CInt
    /// Takes a mutex that another thread has.
    func waitForMutex(_ mutex: UnsafeMutablePointer<pthread_mutex_t>)
    /// Waits for a condition, and no longer than that time. May also return without reason.
    func wait(
        for condition: UnsafeMutablePointer<pthread_cond_t>,
        _ mutex: UnsafeMutablePointer<pthread_mutex_t>,
        atMost time: Duration
    )

    // MARK: The process

    /// Returns what takes the place of a static value in one process of several, or nil if this program is one process.
    func own(_ key: ObjectIdentifier, _ make: () -> AnyObject) -> AnyObject?
    /// For identifiers. Secrets are libsodium's random bytes, which a simulation replaces in libsodium.
    var randomNumber: UInt64 { get }
    /// Returns an environment variable, or nil if it is not set, or if this program has more rights than the user who has started it.
    func variable(_ name: String) -> [UInt8]?
    var user: uid_t { get }
    var group: gid_t { get }
    var processors: Int { get }
    /// How many descriptors the process may open, or nil if the system does not say.
    var descriptorLimit: UInt64? { get }
}

/// The world of this thread: the system, unless a simulation has begun the thread.
package var world: any World {
    guard let simulated = pthread_getspecific(worldKey) else { return RealWorld.shared }
    return Unmanaged<WorldOfThread>.fromOpaque(simulated).takeUnretainedValue().world
}

/// Runs `body` in another world.
package func withWorld<Result, Failure>(_ world: any World, _ body: () throws(Failure) -> Result)
    throws(Failure) -> Result
{
    let before = pthread_getspecific(worldKey)
    let entered = WorldOfThread(world)
    pthread_setspecific(worldKey, Unmanaged.passUnretained(entered).toOpaque())
    defer {
        pthread_setspecific(worldKey, before)
        withExtendedLifetime(entered) {}
    }
    return try body()
}

private final class WorldOfThread {
    let world: any World
    init(_ world: any World) { self.world = world }
}

private let worldKey: pthread_key_t = {
    var key = pthread_key_t()
    let result = pthread_key_create(&key, nil)
    precondition(result == 0, "pthread_key_create: \(result)")
    return key
}()
