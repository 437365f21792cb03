#if canImport(Glibc) || canImport(Musl)
    /// Runs `work` on a thread that may block.
    ///
    /// Not on a concurrent `DispatchQueue`: its threads are those of the cooperative pool here, as many as there are processors. Two
    /// calls that wait for a lock would hold up every task of the program.
    func runBlocking(_ work: @escaping @Sendable () -> Void) { BlockingThreads.shared.run(work) }
#endif
