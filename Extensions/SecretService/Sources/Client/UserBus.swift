#if SecretService
    import CSystemd
    import LockboxPlatform

    /// This program's own connection to the user's D-Bus. One thread uses it at a time.
    final class UserBus {
        let raw: OpaquePointer
        /// How long an answer may take.
        let limit: Duration

        /// - Parameter address: Another one than the environment names.
        /// - Throws: ``BusError/noBus(_:)`` if there is no bus; another ``BusError`` if it does not answer.
        init(limit: Duration, address: String? = nil) throws {
            var bus: OpaquePointer?
            let code = open_bus(&bus, address)
            guard code >= 0, let bus else {
                let reason = String(cString: strerror(-code))
                // There is no address, no socket, or no listener, or it is another user's.
                let isMissing = [ENOENT, ECONNREFUSED, EACCES, EPERM].contains(-code)
                throw isMissing ? BusError.noBus(reason) : .busFailed(reason)
            }
            (raw, self.limit) = (bus, limit)
            try sd_bus_set_method_call_timeout(bus, limit.microseconds).checked()
            let end = ContinuousClock.now + limit
            do {
                while try sd_bus_is_ready(bus).checked() == 0 {
                    if try sd_bus_process(bus, nil).checked() > 0 { continue }
                    guard try sleep(until: end) else { throw BusError.failed("it is too late") }
                }
            } catch let error as BusError { throw BusError.busFailed(error.message) }
        }

        // Not what closes after all is written, which waits for the bus.
        deinit { sd_bus_close_unref(raw) }

        /// - Returns: The answer, whose arguments can be read.
        @discardableResult
        func call(
            _ path: String,
            _ interface: String,
            _ member: String,
            at destination: String = BusDriver.serviceName,
            _ arguments: BusAnswer = { _ in }
        ) throws -> BusMessage {
            var new: OpaquePointer?
            try sd_bus_message_new_method_call(raw, &new, destination, path, interface, member).checked()
            let call = BusMessage(new!)
            try arguments(call)
            var (error, answer) = (sd_bus_error(), OpaquePointer?.none)
            defer { sd_bus_error_free(&error) }
            let code = sd_bus_call(raw, call.raw, 0, &error, &answer)
            if code >= 0, let answer { return BusMessage(answer) }
            let text = error.message.map { String(cString: $0) } ?? String(cString: strerror(-code))
            throw BusError(error.name.map { String(cString: $0) } ?? BusError.failed("").name, text)
        }

        /// Calls a method of the bus itself.
        @discardableResult
        func callBus(_ member: String, _ arguments: BusAnswer = { _ in }) throws -> BusMessage {
            try call(BusDriver.path, BusDriver.name, member, at: BusDriver.name, arguments)
        }

        /// Takes a name that only one connection to the bus can have. It is free again when this connection ends, however that is.
        ///
        /// - Returns: Whether it was free.
        func take(_ name: String) throws -> Bool {
            let result = sd_bus_request_name(raw, name, 0)
            if result == -EEXIST { return false }
            try result.checked()
            return true
        }

        /// Waits for a signal.
        ///
        /// - Returns: Its message, or nil if none has come in time.
        func signal(_ member: String, from path: String, within time: Duration) throws -> BusMessage? {
            let end = ContinuousClock.now + time
            while true {
                var new: OpaquePointer?
                let isBusy = try sd_bus_process(raw, &new).checked() > 0
                if let message = new.map({ BusMessage($0) }), message.isSignal(member, from: path) {
                    return message
                }
                if isBusy { continue }
                guard try sleep(until: end) else { return nil }
            }
        }

        /// Returns false when the time is over.
        private func sleep(until end: ContinuousClock.Instant) throws -> Bool {
            let rest = end - .now
            guard rest > .zero else { return false }
            let code = sd_bus_wait(raw, rest.microseconds)
            if code != -EINTR { try code.checked() }
            return true
        }
    }

    extension Duration {
        fileprivate var microseconds: UInt64 {
            let (seconds, attoseconds) = components
            return UInt64(max(0, seconds)) * 1_000_000 + UInt64(max(0, attoseconds) / 1_000_000_000_000)
        }
    }
#endif
