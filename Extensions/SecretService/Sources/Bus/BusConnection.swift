#if SecretService
    import CSystemd
    import LockboxPlatform

    /// A client's connection, or the one to a bus, where all clients are. sd-bus does the handshake and frames the messages.
    final class BusConnection {
        /// The bounds for one client, which may be hostile.
        enum Limit {
            /// Bytes of one message: a value of the greatest size, and its attributes.
            static let message = 18 << 20
            /// Bytes of answers that the client does not read.
            static let unread = 40 << 20
            static let unreadMessages = 2048
            static let matches = 1024
            static let sessions = 64
            /// From the connection to Hello.
            static let handshake = Duration.seconds(10)
        }

        /// The message that sd-bus has read.
        private final class Inbox {
            var message: BusMessage?
        }

        private let bus: OpaquePointer
        private let inbox = Inbox()
        let file: CInt
        /// The client's process, or 0.
        let process: pid_t
        private let begin = ContinuousClock.now
        /// The unique name, from Hello on.
        private(set) var name: String?
        /// How many rules for signals it has. None is kept: it gets all signals, or none.
        private var matches = 0
        /// Whether signals are for it. A bus knows itself who listens.
        var listens: Bool { isClient || matches > 0 }
        /// On a bus, the unique name of the client whose call is answered.
        private var caller = ""
        private var clients: [String: [String: Session]] = [:]
        private var unread = 0
        private(set) var isOpen = true
        /// Whether more may be there than the socket shows.
        private(set) var hasMore = false

        /// The service's unique name.
        let serviceName: String
        /// The bus, if it is one.
        private let userBus: UserBus?
        private var isClient: Bool { userBus != nil }

        /// The sessions of the client whose call is answered.
        var sessions: [String: Session] {
            get { clients[caller, default: [:]] }
            set { clients[caller] = newValue.isEmpty ? nil : newValue }
        }

        /// Takes over a connection to a bus.
        init(_ bus: UserBus) throws {
            (self.bus, userBus, process) = (bus.raw, bus, 0)
            file = try sd_bus_get_fd(bus.raw).checked()
            var unique: UnsafePointer<CChar>?
            try sd_bus_get_unique_name(self.bus, &unique).checked()
            serviceName = String(cString: unique!)
            name = serviceName
            hasMore = true
            try receive()
        }

        /// Takes over a socket whose other end is this user's.
        ///
        /// - Parameters:
        ///   - process: That of the other end.
        ///   - identifier: The bus's, 16 bytes.
        init(_ file: CInt, process: pid_t, identifier: sd_id128_t) throws(BusError) {
            var bus: OpaquePointer?
            guard sd_bus_new(&bus) >= 0, let bus else {
                close(file)
                throw .failed("There is no memory for another connection.")
            }
            (self.bus, self.file, userBus, serviceName) = (bus, file, nil, BusDriver.uniqueName)
            self.process = process
            do {
                try sd_bus_set_fd(bus, file, file).checked()
            } catch {
                close(file)
                throw error
            }
            try sd_bus_set_server(bus, 1, identifier).checked()
            // The kernel has said who it is. What the client claims may differ, in a user namespace.
            try sd_bus_set_anonymous(bus, 1).checked()
            try sd_bus_negotiate_fds(bus, 0).checked()
            try receive()
            try sd_bus_start(bus).checked()
        }

        /// Before sd-bus answers anything itself.
        private func receive() throws(BusError) {
            try sd_bus_add_filter(
                bus,
                nil,
                { message, inbox, _ in
                    Unmanaged<Inbox>.fromOpaque(inbox!).takeUnretainedValue().message =
                        BusMessage(sd_bus_message_ref(message!))
                    return 1
                },
                Unmanaged.passUnretained(inbox).toOpaque()
            ).checked()
        }

        // Not what closes after all is written, which waits for the client.
        deinit { if !isClient { sd_bus_close_unref(bus) } }

        /// The events to wait for. Calls wait until the client has read the answers to earlier ones.
        var events: Int16 {
            let events = sd_bus_get_events(bus)
            return Int16(isBehind ? events & CInt(POLLOUT) : events)
        }

        /// Whether it has not said Hello in time.
        var isLate: Bool { name == nil && begin + Limit.handshake < .now }

        /// Whether the client has not read all that was sent.
        var isBehind: Bool { queued > 0 }

        private var queued: UInt64 {
            var count: UInt64 = 0
            return sd_bus_get_n_queued_write(bus, &count) < 0 ? 0 : count
        }

        /// Returns the next call, or nil if there is none.
        ///
        /// - Throws: The connection has ended, or must be closed.
        func next() throws(BusError) -> BusCall? {
            let before = allocated_bytes()
            hasMore = try sd_bus_process(bus, nil).checked() > 0
            guard let message = inbox.message else {
                // sd-bus makes room for all that a header announces as soon as it has read the header.
                if !isClient, allocated_bytes() > before + Limit.message {
                    throw .tooMuch("A message is too long.")
                }
                return nil
            }
            inbox.message = nil
            guard let call = BusCall(message) else {
                if isClient { try forgetClient(message) }
                return nil
            }
            if isClient { caller = call.sender ?? "" }
            return call
        }

        /// A client's sessions end with its connection to the bus.
        private func forgetClient(_ signal: BusMessage) throws(BusError) {
            guard signal.isSignal("NameOwnerChanged", from: BusDriver.path), signal.signature == "sss",
                let name = try? signal.text()
            else { return }
            clients[name] = nil
        }

        /// Closes it, after what is happening now.
        func end() { isOpen = false }

        func hello(as name: String) { self.name = name }

        func addMatch() throws {
            guard matches < Limit.matches else { throw BusError.tooMuch("There are too many match rules.") }
            matches += 1
        }

        func removeMatch() { matches = max(0, matches - 1) }

        // MARK: Sending

        /// - Parameter sender: The name that the call went to.
        func answer(_ call: BusCall, from sender: String, _ arguments: BusAnswer) throws {
            var raw: OpaquePointer?
            try sd_bus_message_new_method_return(call.message.raw, &raw).checked()
            let answer = BusMessage(raw!)
            try arguments(answer)
            try send(answer, from: sender)
        }

        func refuse(_ call: BusCall, from sender: String, _ error: BusError) throws {
            var raw: OpaquePointer?
            try error.name.withCString { name in
                try error.message.withCString { message in
                    var error = sd_bus_error(name: name, message: message, _need_free: 0)
                    try sd_bus_message_new_method_error(call.message.raw, &raw, &error).checked()
                }
            }
            try send(BusMessage(raw!), from: sender)
        }

        func send(_ signal: BusSignal, from sender: String) throws {
            var raw: OpaquePointer?
            try sd_bus_message_new_signal(bus, &raw, signal.path, signal.interface, signal.member).checked()
            let message = BusMessage(raw!)
            try signal.arguments(message)
            try send(message, from: sender)
        }

        private func send(_ message: BusMessage, from sender: String) throws {
            // A bus does it itself.
            if !isClient { try address(message, from: sender) }
            try sd_bus_send(bus, message.raw, nil).checked()
            unread = isBehind ? unread + message.size : 0
            if unread > Limit.unread || queued > Limit.unreadMessages {
                throw BusError.tooMuch("The client does not read its answers.")
            }
        }

        private func address(_ message: BusMessage, from sender: String) throws {
            try sd_bus_message_set_sender(message.raw, sender).checked()
            if let name, sd_bus_message_get_destination(message.raw) == nil {
                try sd_bus_message_set_destination(message.raw, name).checked()
            }
        }
    }
#endif
