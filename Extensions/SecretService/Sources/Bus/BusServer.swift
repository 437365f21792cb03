#if SecretService
    import CSystemd
    @_spi(Extensions) import LockboxCore
    import LockboxPlatform

    /// Answers the calls of several clients, one after the other, in one thread.
    final class BusServer {
        static let maximumConnections = 64
        /// How many calls of one client are answered before the others have their turn.
        private static let turn = 16

        private let objects: SecretObjects
        private let identifier: sd_id128_t
        private var driver: BusDriver
        private var connections: [BusConnection] = []
        /// When the system had no room for another connection.
        private var refusedAt: ContinuousClock.Instant?

        init(_ objects: SecretObjects) {
            self.objects = objects
            var identifier = sd_id128_t()
            sd_id128_randomize(&identifier)
            self.identifier = identifier
            driver = BusDriver(identifier: withUnsafeBytes(of: identifier, Array.init).hexadecimal)
        }

        /// - Parameters:
        ///   - listener: The socket, or -1 if all clients are on a bus.
        ///   - end: Another descriptor to wait for.
        ///   - isOver: Called when `end` can be read. Returns whether to stop.
        func serve(_ listener: CInt, until end: CInt, _ isOver: () throws -> Bool) throws {
            while true {
                let events = try wait(listener, end)
                if events[0] != 0, try isOver() { return }
                if events[1] != 0 { accept(listener) }
                // The newly accepted ones are not among them.
                for (connection, event) in zip(connections, events.dropFirst(2)) {
                    if event != 0 || connection.hasMore && !connection.isBehind { advance(connection) }
                    if connection.isLate { connection.end() }
                }
                for connection in connections where !connection.isOpen {
                    if let name = connection.name { driver.forget(name) }
                }
                connections.removeAll { !$0.isOpen }
                if listener < 0, connections.isEmpty {
                    throw SecretServiceError("The session's D-Bus has closed the connection.")
                }
            }
        }

        /// Serves the clients of a bus, too.
        func add(_ bus: UserBus) throws { connections.append(try BusConnection(bus)) }

        private func wait(_ listener: CInt, _ end: CInt) throws -> [Int16] {
            if let refusedAt, refusedAt + .milliseconds(100) < .now { self.refusedAt = nil }
            var requests = [
                pollfd(fd: end, events: Int16(POLLIN), revents: 0),
                pollfd(fd: takesMore ? listener : -1, events: Int16(POLLIN), revents: 0),
            ]
            requests += connections.map { pollfd(fd: $0.file, events: $0.events, revents: 0) }
            let isBusy = connections.contains { $0.hasMore && !$0.isBehind }
            let mustLook = refusedAt != nil || connections.contains { $0.name == nil }
            let time: CInt = isBusy ? 0 : mustLook ? 100 : -1
            while poll(&requests, nfds_t(requests.count), time) < 0 {
                if errno != EINTR { throw SecretServiceError("Waiting for clients failed", errno) }
            }
            return requests.map(\.revents)
        }

        /// Otherwise further clients wait at the socket until others have gone.
        private var takesMore: Bool { refusedAt == nil && (!isFull || surplus != nil) }
        private var isFull: Bool { connections.count >= Self.maximumConnections }

        /// The oldest connection of the process that has the most, if those are more than a program needs.
        private var surplus: BusConnection? {
            let most = Dictionary(grouping: connections, by: \.process).values.max { $0.count < $1.count }
            return most.flatMap { $0.count > 2 ? $0[0] : nil }
        }

        private func accept(_ listener: CInt) {
            var (user, process): (uid_t, pid_t) = (0, 0)
            let file = accept_peer(listener, &user, &process)
            if file == -EMFILE || file == -ENFILE || file == -ENOMEM || file == -ENOBUFS { refusedAt = .now }
            if file < 0 { return }
            guard user == geteuid() else {
                close(file)
                return
            }
            if isFull { surplus?.end() }
            if let connection = try? BusConnection(file, process: process, identifier: identifier) {
                connections.append(connection)
            }
        }

        private func advance(_ connection: BusConnection) {
            do {
                for _ in 0..<Self.turn {
                    if let call = try connection.next() { try answer(call, connection) }
                    if !connection.hasMore || connection.isBehind { return }
                }
            } catch { connection.end() }
        }

        private func answer(_ call: BusCall, _ connection: BusConnection) throws {
            let isForBus = BusDriver.isFor(call)
            let sender = isForBus ? BusDriver.name : connection.serviceName
            do {
                let answer =
                    try isForBus ? driver.answer(call, connection) : objects.answer(call, connection)
                for signal in objects.takeSignals() { send(signal) }
                try connection.answer(call, from: sender, answer)
            } catch {
                try connection.refuse(call, from: sender, BusError(error))
            }
        }

        private func send(_ signal: BusSignal) {
            for connection in connections where connection.listens && connection.isOpen {
                do { try connection.send(signal, from: connection.serviceName) } catch { connection.end() }
            }
        }
    }
#endif
