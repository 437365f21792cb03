import Dispatch
import LockboxPlatform

/// A machine that exists in memory only: files, a clock, a kernel, and processes that share them.
///
/// One thread runs at a time. At each call of its ``World``, random numbers from the seed decide which thread goes on, and whether the
/// call fails. They also kill and stop processes, and cut the power.
package final class SimulatedMachine: @unchecked Sendable {
    // Unchecked: only the thread that runs accesses it.

    /// How likely things are, of 100,000 calls.
    package struct Chances: Sendable {
        package var change = 10_000
        package var failure = 0
        package var kill = 0
        package var stop = 0
        package var cut = 0
        package var clockStep = 0

        package init() {}
    }

    package var random: SimulatedRandom
    package var chances = Chances()
    var defect: Simulation.Defect?
    package let files = SimulatedFiles()
    let keys = SimulatedKeyring()
    /// Its lock is that of the keyring.
    let keysFile = SimulatedFiles.Inode(0, S_IFREG)
    package private(set) var uptime = Duration.seconds(100)
    private(set) var clockOffset = Duration.seconds(1_700_000_000)
    /// What has happened, in numbers.
    package private(set) var counts = Counts()
    /// The calls of its processes, if it is to be shown.
    package var trace: (@Sendable (String) -> Void)?

    package struct Counts: Sendable {
        package var calls = 0
        package var failures = 0
        package var kills = 0
        package var stops = 0
        package var cuts = 0
        package var operations = 0
        /// Days with too many calls at the same time to say whether an order explains them.
        package var undecidedDays = 0
    }

    private var lastProcess = 0

    /// Returns the number of a new process.
    func nextProcess() -> Int {
        lastProcess += 1
        return lastProcess
    }

    func noteUndecidedDay() { counts.undecidedDays += 1 }
    func noteOperation() { counts.operations += 1 }

    final class Thread: Sendable {
        let process: SimulatedProcess
        let number: Int
        let turn = DispatchSemaphore(value: 0)
        init(_ process: SimulatedProcess, _ number: Int) { (self.process, self.number) = (process, number) }
    }

    /// The number of the call at which the machine gives up.
    private var lastCall = Int.max
    private var troubledUntil = Duration.zero
    private var threads: [(thread: Thread, wakesAt: Duration)] = []
    private var running: Thread?
    private var lastThread = 0
    private let driver = DispatchSemaphore(value: 0)

    package init(seed: UInt64) { random = SimulatedRandom(seed: seed) }

    var date: Duration { uptime + clockOffset }

    // MARK: Running

    /// Begins a thread, which runs as soon as ``run()`` is called, or its turn comes.
    func begin(_ process: SimulatedProcess, _ body: @escaping @Sendable () -> Void) -> CInt {
        lastThread += 1
        let thread = Thread(process, lastThread)
        let body = SimulatedBox<(@Sendable () -> Void)?>(body)
        let result = RealWorld.shared.detach {
            thread.turn.wait()
            withWorld(process) {
                body.value?()
                // What it holds makes calls when it is released, which must come before the end.
                body.value = nil
            }
            self.end(thread)
        }
        if result == 0 { threads.append((thread, .zero)) }
        return result
    }

    /// Runs the threads until all have ended.
    ///
    /// - Returns: Whether they did so of their own accord, and not because they made too many calls.
    @discardableResult
    package func run() -> Bool {
        lastCall = counts.calls + 500_000
        guard let next = next() else { return true }
        running = next
        next.turn.signal()
        driver.wait()
        return counts.calls < lastCall
    }

    private func end(_ thread: Thread) {
        threads.removeAll { $0.thread === thread }
        guard let next = next() else {
            driver.signal()
            return
        }
        running = next
        next.turn.signal()
    }

    /// Returns a thread that can run, after the time until there is one, or nil if there is none at all.
    private func next() -> Thread? {
        if threads.isEmpty { return nil }
        while true {
            let ready = threads.filter { canRun(at: uptime, $0) }
            if !ready.isEmpty { return ready[random.below(ready.count)].thread }
            uptime = threads.map { max($0.wakesAt, $0.thread.process.stoppedUntil) }.min()!
        }
    }

    private func canRun(at time: Duration, _ entry: (thread: Thread, wakesAt: Duration)) -> Bool {
        entry.thread.process.isDead
            || (entry.wakesAt <= time && entry.thread.process.stoppedUntil <= time)
    }

    /// Lets another thread run, or the same one.
    private func giveTurn() {
        let own = running!
        guard let next = next(), next !== own else { return }
        running = next
        next.turn.signal()
        own.turn.wait()
    }

    // MARK: What happens at a call

    /// Whether the calling process still lives after what happened.
    ///
    /// - Parameter weight: How much likelier than at other calls something happens.
    func step(_ process: SimulatedProcess, _ call: @autoclosure () -> String, weight: Int = 1) -> Bool {
        if process.isDead { return false }
        counts.calls += 1
        if let trace { trace("\(uptime) process \(process.number).\(running!.number) \(call())") }
        uptime += .nanoseconds(200 + random.below(5_000))
        happen(process, weight)
        if counts.calls >= lastCall { killAll() }
        if !process.isDead, process.stoppedUntil > uptime || random.happens(chances.change * weight) {
            giveTurn()
        }
        return !process.isDead
    }

    private func happen(_ process: SimulatedProcess, _ weight: Int) {
        if random.happens(chances.kill * weight) { kill(process) }
        if random.happens(chances.stop * weight) {
            counts.stops += 1
            process.stoppedUntil = uptime + .milliseconds(1 << random.below(16))
            troubledUntil = min(process.stoppedUntil, uptime + .milliseconds(10))
        }
        if random.happens(chances.clockStep) { clockOffset += .seconds(random.below(7200) - 3600) }
        if random.happens(chances.cut * weight * troubles) { cutPower() }
    }

    /// What was made durable may rest on what is not.
    func happenAfterSynchronization() {
        if files.isAnythingPending, random.happens(chances.cut * 20) { cutPower() }
    }

    /// How much likelier a power cut is now: what was interrupted a moment ago may not be durable yet.
    private var troubles: Int { uptime < troubledUntil ? 5 : 1 }

    /// Returns whether a call is to fail.
    func fails() -> Bool {
        guard random.happens(chances.failure) else { return false }
        counts.failures += 1
        troubledUntil = uptime + .milliseconds(2)
        return true
    }

    func sleep(_ process: SimulatedProcess, _ time: Duration) {
        if process.isDead { return }
        let end = uptime + time
        guard let own = threads.firstIndex(where: { $0.thread === running }) else { return }
        threads[own].wakesAt = end
        giveTurn()
    }

    /// The same for a thread that another one of its process must let go on, also after the end of the process.
    func waitEvenIfDead(_ process: SimulatedProcess, _ time: Duration) {
        if process.isDead { giveTurn() } else { sleep(process, time) }
    }

    package func kill(_ process: SimulatedProcess) {
        counts.kills += 1
        troubledUntil = uptime + .milliseconds(2)
        if let trace { trace("\(uptime) process \(process.number) is killed") }
        process.die()
    }

    private func killAll() {
        for entry in threads where !entry.thread.process.isDead { entry.thread.process.die() }
    }

    /// The processes are gone, and so is what was not synchronized, or a part of it.
    package func cutPower() {
        counts.cuts += 1
        if let trace { trace("\(uptime) the power is cut") }
        killAll()
        keysFile.lock = (true, [])
        files.cutPower(&random)
        keys.removeAll()
    }
}

/// The numbers that decide what happens: SplitMix64.
package struct SimulatedRandom: RandomNumberGenerator, Sendable {
    private var state: UInt64

    package init(seed: UInt64) { state = seed }

    package mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

    package mutating func below(_ bound: Int) -> Int { Int(next() % UInt64(bound)) }

    /// - Parameter chance: Of 100,000.
    package mutating func happens(_ chance: Int) -> Bool { chance > 0 && below(100_000) < chance }
}
