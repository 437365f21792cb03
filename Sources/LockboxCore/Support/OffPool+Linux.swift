#if canImport(Glibc) || canImport(Musl)
    /// Runs `work` on a thread that may block, or calls it with the reason why there is none.
    ///
    /// Not on a concurrent `DispatchQueue`: its threads are those of the cooperative pool here, as many as there are processors. Two
    /// calls that wait for a lock would hold up every task of the program.
    func runBlocking(reading: Bool, _ work: @escaping BlockingThreads.Work) {
        (reading ? BlockingThreads.reading : .shared).run(work)
    }
#endif
