#if canImport(Darwin)
    import Dispatch

    /// Runs `work` on a thread that may block.
    ///
    /// The queue's threads are not those of the cooperative pool here. They have the caller's priority, and drain autorelease pools.
    func runBlocking(_ work: @escaping @Sendable () -> Void) { queue.async(execute: work) }

    private let queue = DispatchQueue(label: "lockbox", attributes: .concurrent)
#endif
