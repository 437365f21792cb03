#if canImport(Darwin)
    import Dispatch

    /// Runs `work` on a thread that may block.
    ///
    /// The queue's threads are not those of the cooperative pool here. They have the caller's priority, and drain autorelease pools.
    func runBlocking(reading: Bool, _ work: @escaping BlockingThreads.Work) {
        (reading ? reads : changes).async { work(nil) }
    }

    private let reads = DispatchQueue(label: "lockbox.reads", attributes: .concurrent)
    private let changes = DispatchQueue(label: "lockbox", attributes: .concurrent)
#endif
