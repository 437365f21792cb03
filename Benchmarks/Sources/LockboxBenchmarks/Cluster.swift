#if Etcd
    // Lockbox on a cluster of etcd, beside the bare requests in C on libcurl:
    //
    //     ../Scripts/benchmark-cluster
    //
    // Both ask the first endpoint, over connections that stay open. A value has 256 bytes; what C writes and reads is as long as
    // Lockbox's records are.

    import CEtcd
    import Foundation
    import Lockbox
    import LockboxEtcd
    @_spi(Extensions) import LockboxStore

    struct Cluster {
        static let prefix = "com.example.small"
        static let value = Data((0..<256).map { UInt8($0) })
        static let count = 1000

        let endpoints: [String]
        let root: String
        private let floor: EtcdFloor
        private let counters: [EtcdFloor]

        init(endpoints: [String]) throws {
            self.endpoints = endpoints
            root = "/lockbox-benchmark/\(UInt32.random(in: 0 ... .max))"
            floor = EtcdFloor(endpoints[0], root)
            counters = endpoints.map { EtcdFloor($0, "") }
        }

        static func storage(_ endpoints: [String], _ root: String) throws -> EtcdStorage {
            try EtcdStorage(endpoints: endpoints, root: root + "/lockbox", security: .insecurePlaintext)
        }

        static func lockbox(_ storage: some RecordStorage) throws -> Lockbox {
            let backend = SealedBackend(
                storage: storage,
                deviceKey: .closure { [UInt8](repeating: 7, count: 32) }
            )
            return try Lockbox(keyPrefix: prefix, backend: backend)
        }

        func run() throws {
            let lockbox = try Self.lockbox(Self.storage(endpoints, root))
            try lockbox.batch { batch in
                for key in Keys(Self.count).all { try batch.archiveObject(Self.value, forKey: key) }
            }
            floor.fill(recordLength: try floor.list("\(root)/lockbox/i/") / Self.count)
            print("\(endpoints.count) members of etcd, 256-byte values\n")
            print("| operation | Lockbox, median | C, median | ratio |\n|---|---:|---:|---:|")
            try compareCalls(lockbox)
            print("\n| operation | round trips |\n|---|---:|")
            try countTrips(lockbox)
            try rotate()
            try callers()
        }

        private func compareCalls(_ lockbox: Lockbox) throws {
            let keys = Keys(Self.count)
            compare(
                "read Data, against item and keybag's revision in a transaction",
                4000,
                { _ = try lockbox.unarchiveObject(Data.self, forKey: keys.next()) },
                { try floor.readBeside(keys.next()) }
            )
            compare(
                "read Data, against a bare range",
                4000,
                { _ = try lockbox.unarchiveObject(Data.self, forKey: keys.next()) },
                { _ = try floor.read(keys.next()) }
            )
            compare(
                "write Data (replace), against a range and a transaction",
                2000,
                { try lockbox.archiveObject(Self.value, forKey: keys.next()) },
                { try floor.replace(keys.next()) }
            )
            compare(
                "write Data (replace), against the same with a mark against late and repeated ones",
                2000,
                { try lockbox.archiveObject(Self.value, forKey: keys.next()) },
                { try floor.replaceOnce(keys.next()) }
            )
            compare(
                "list 1,000 items, against a range with their values",
                50,
                { _ = try lockbox.list().items },
                { _ = try floor.list("\(root)/c/i/") }
            )
        }

        // MARK: Round trips

        /// The requests that all members have answered.
        private func answered() throws -> Int { try counters.reduce(0) { $0 + (try $1.answered()) } }

        private func trips(_ name: String, _ count: Int, _ body: () throws -> Void) throws {
            guard isWanted(name) else { return }
            try body()  // A thread needs a connection and a mark, once.
            let before = try answered()
            for _ in 0..<count { try body() }
            let trips = Double(try answered() - before) / Double(count)
            print("| \(name) | \((trips * 100).rounded() / 100) |")
        }

        private func countTrips(_ lockbox: Lockbox) throws {
            let keys = Keys(Self.count)
            try trips("read", 100) { _ = try lockbox.unarchiveObject(Data.self, forKey: keys.next()) }
            try trips("read of a key that is absent", 100) {
                _ = try lockbox.unarchiveObject(Data.self, forKey: "absent")
            }
            try trips("write (replace)", 100) { try lockbox.archiveObject(Self.value, forKey: keys.next()) }
            try trips("update", 100) { try lockbox.update("count", as: Int.self) { $0 = ($0 ?? 0) + 1 } }
            try trips("remove", 100) { try lockbox.removeObject(forKey: "count") }
            try trips("list of 1,000", 10) { _ = try lockbox.list().items }
        }

        // MARK: Rotation

        private func rotate() throws {
            let name = "rotation of 10,000 items"
            guard isWanted(name) else { return }
            let watched = WatchedStorage(try Self.storage(endpoints, root + "/many"))
            let backend = SealedBackend(
                storage: watched,
                deviceKey: .closure { [UInt8](repeating: 7, count: 32) }
            )
            let lockbox = try Lockbox(keyPrefix: Self.prefix, backend: backend)
            let keys = Keys(10_000).all
            try lockbox.batch { for key in keys { try $0.archiveObject(Self.value, forKey: key) } }
            watched.reset()
            let before = try answered()
            let report = try backend.rotateKeys()
            let trips = try answered() - before
            print("| \(name): \(report.resealedCount) resealed | \(trips) |")
            let (commits, largest) = watched.commits
            print("| its transactions that write: \(commits), the largest with \(largest) operations | |")
        }

        // MARK: Many callers

        private func callers() throws {
            let name = "eight processes with eight threads each"
            guard isWanted(name) else { return }
            print("\n| \(name) | Lockbox, calls a second | C, calls a second | ratio |\n|---|---:|---:|---:|")
            for work in Callers.Work.allCases {
                var rates: [Callers.Contender: [Double]] = [:]
                for _ in 0..<5 {
                    for contender in Callers.Contender.allCases {
                        rates[contender, default: []].append(try rate(contender, work))
                    }
                }
                let medians = rates.mapValues { $0.sorted()[$0.count / 2] }
                let (a, b) = (medians[.lockbox] ?? 0, medians[.c] ?? 0)
                print("| \(work.rawValue) | \(Int(a)) | \(Int(b)) | \((a / b * 100).rounded() / 100) |")
            }
        }

        private func rate(_ contender: Callers.Contender, _ work: Callers.Work) throws -> Double {
            let all = try (0..<8).map { index in
                let (process, pipe) = (Process(), Pipe())
                process.executableURL = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath()
                process.arguments = [
                    "cluster-callers", contender.rawValue, work.rawValue, endpoints.joined(separator: ","),
                    root,
                    "\(index)",
                ]
                process.standardOutput = pipe
                try process.run()
                return pipe
            }
            return all.reduce(0) { sum, pipe in
                let text = String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
                return sum + (Double(text.trimmingCharacters(in: .whitespacesAndNewlines)) ?? .nan)
            }
        }
    }
#endif
