#if Etcd
    import Foundation
    import Lockbox

    /// One of several processes, with eight threads: `cluster-callers CONTENDER WORK ENDPOINTS ROOT INDEX`. Prints how many calls
    /// a second its threads have made.
    struct Callers {
        enum Contender: String, CaseIterable { case lockbox, c }
        enum Work: String, CaseIterable { case read, write }

        static let threads = 8
        static let seconds = 2.0

        let contender: Contender
        let work: Work
        let endpoints: [String]
        let root: String
        let index: Int

        init?(_ arguments: [String]) {
            guard arguments.count == 6, let contender = Contender(rawValue: arguments[1]),
                let work = Work(rawValue: arguments[2]), let index = Int(arguments[5])
            else { return nil }
            self.contender = contender
            self.work = work
            endpoints = arguments[3].split(separator: ",").map(String.init)
            root = arguments[4]
            self.index = index
        }

        func run() throws {
            let lockbox = try Cluster.lockbox(Cluster.storage(endpoints, root))
            nonisolated(unsafe) let rates = UnsafeMutablePointer<Double>.allocate(capacity: Self.threads)
            let group = DispatchGroup()
            for thread in 0..<Self.threads {
                group.enter()
                Thread.detachNewThread {
                    rates[thread] = (try? rate(call(thread, lockbox))) ?? .nan
                    group.leave()
                }
            }
            group.wait()
            print((0..<Self.threads).reduce(0) { $0 + rates[$1] })
        }

        /// Each thread has keys of its own, so that no write meets another.
        private func call(_ thread: Int, _ lockbox: Lockbox) -> () throws -> Void {
            let first = (index * Self.threads + thread) * 15
            var next = 0
            func key() -> String {
                next = (next + 1) % 15
                return "key\(first + next)"
            }
            let floor = contender == .c ? EtcdFloor(endpoints[0], root) : nil
            switch (floor, work) {
            case (let floor?, .read): return { try floor.readBeside(key()) }
            case (let floor?, .write): return { try floor.replaceOnce(key()) }
            case (nil, .read): return { _ = try lockbox.unarchiveObject(Data.self, forKey: key()) }
            case (nil, .write): return { try lockbox.archiveObject(Cluster.value, forKey: key()) }
            }
        }

        private func rate(_ call: () throws -> Void) throws -> Double {
            for _ in 0..<20 { try call() }
            let clock = ContinuousClock()
            let start = clock.now
            var calls = 0
            while clock.now - start < .seconds(Self.seconds) {
                try call()
                calls += 1
            }
            return Double(calls) / ((clock.now - start) / .seconds(1))
        }
    }
#endif
