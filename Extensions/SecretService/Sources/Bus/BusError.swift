#if SecretService
    import LockboxPlatform

    /// An answer of D-Bus that says what is wrong.
    struct BusError: Error, Equatable {
        let name: String
        let message: String

        /// - Parameter message: It may quote what a client has sent, of which the beginning is enough.
        init(_ name: String, _ message: String) {
            (self.name, self.message) = (name, String(message.prefix(1000)))
        }

        private static func bus(_ name: String, _ message: String) -> BusError {
            BusError("org.freedesktop.DBus.Error.\(name)", message)
        }

        private static func secret(_ name: String, _ message: String) -> BusError {
            BusError("org.freedesktop.Secret.Error.\(name)", message)
        }

        static func invalidArguments(_ message: String) -> BusError { bus("InvalidArgs", message) }
        static func failed(_ message: String) -> BusError { bus("Failed", message) }
        static func notSupported(_ message: String) -> BusError { bus("NotSupported", message) }
        static func tooMuch(_ message: String) -> BusError { bus("LimitsExceeded", message) }
        static func noName(_ name: String) -> BusError {
            bus("NameHasNoOwner", "There is no \(name): this bus has the Secret Service only.")
        }
        static func noService(_ name: String) -> BusError {
            bus("ServiceUnknown", "There is no \(name): this bus has the Secret Service only.")
        }
        static func noMethod(_ call: BusCall) -> BusError {
            bus(
                "UnknownMethod",
                "\(call.path) has no method \(call.member) of \(call.interface ?? "any interface")."
            )
        }
        /// For clients only.
        static func noKeyring(_ reason: String) -> BusError { bus("NoKeyring", reason) }
        static func noBus(_ reason: String) -> BusError {
            noKeyring("this session has no D-Bus (\(reason))")
        }
        static func busFailed(_ reason: String) -> BusError {
            bus("NoReply", "this session's D-Bus does not answer (\(reason))")
        }
        static let notPermitted = bus("AccessDenied", "The first call of a connection is Hello.")

        static func noObject(_ path: String) -> BusError {
            secret("NoSuchObject", "There is no object \(path).")
        }
        static let noSession = secret("NoSession", "This connection has no such session.")
        static let locked = secret("IsLocked", "locked: run lockbox unlock")
    }

    extension CInt {
        /// Returns what a call of sd-bus has returned, unless that is an error.
        @discardableResult
        func checked() throws(BusError) -> CInt {
            if self < 0 { throw .invalidArguments(String(cString: strerror(-self))) }
            return self
        }
    }
#endif
