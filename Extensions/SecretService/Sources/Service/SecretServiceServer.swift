#if SecretService
    import CSystemd
    @_spi(Extensions) import LockboxCore
    import LockboxPlatform
    public import LockboxStore

    /// Serves the items of a store as `org.freedesktop.secrets`, the interface of Linux's keyrings, on a socket that takes the place
    /// of the user's D-Bus.
    ///
    /// Serve a ``SecretServiceSocket``, and give its `address` to programs as `DBUS_SESSION_BUS_ADDRESS`.
    public struct SecretServiceServer: Sendable {
        private let store: SealedBackend

        /// - Parameter store: The store. Its items are those of the prefix `org.freedesktop.secrets`.
        public init(store: SealedBackend) { self.store = store }

        /// Answers this user's programs until `isOver` returns true. Others are refused. Everything happens in this thread.
        ///
        /// - Parameters:
        ///   - socket: Where it listens.
        ///   - end: Another descriptor to wait for.
        ///   - isOver: Called when `end` can be read. Returns whether to stop.
        /// - Throws: ``SecretServiceError`` if the system refuses to wait; the errors of `isOver`.
        public func serve(_ socket: SecretServiceSocket, until end: CInt, _ isOver: () throws -> Bool) throws
        {
            try BusServer(SecretObjects(store)).serve(socket.listener, until: end, isOver)
        }

        /// Answers the programs on the user's D-Bus as its keyring, until `isOver` returns true.
        ///
        /// - Parameters:
        ///   - end: Another descriptor to wait for.
        ///   - isOver: Called when `end` can be read. Returns whether to stop.
        /// - Throws: ``SecretServiceError`` if there is no bus, or if it has a keyring already; the errors of `isOver`.
        public func serveOnUserBus(until end: CInt, _ isOver: () throws -> Bool) throws {
            let server = BusServer(SecretObjects(store))
            do {
                let bus = try UserBus(limit: .seconds(10))
                guard try Self.join(bus) else {
                    throw SecretServiceError(
                        "\(UserKeyring.look()) on this session's D-Bus. Stop it first, or give one command a keyring of its own."
                    )
                }
                try server.add(bus)
            } catch let error as BusError { throw SecretServiceError("\(error.message).") }
            try server.serve(-1, until: end, isOver)
        }

        /// Returns whether the service has its name now.
        static func join(_ bus: UserBus) throws -> Bool {
            // Sessions end with their clients' connections.
            try bus.callBus("AddMatch") {
                try $0.append("type='signal',sender='\(BusDriver.name)',member='NameOwnerChanged',arg2=''")
            }
            return try bus.take(BusDriver.serviceName)
        }
    }

    /// A socket of this user's, for ``SecretServiceServer``.
    public struct SecretServiceSocket: Sendable {
        /// Its path.
        public let path: String
        let listener: CInt
        /// What is removed with it.
        private let leaves: Leaves
        /// Which file it is: another service may have one in its place by the end.
        private let file: ino_t

        private init(path: String, listener: CInt, leaves: Leaves) {
            (self.path, self.listener, self.leaves) = (path, listener, leaves)
            file = Self.file(at: path)
        }

        private static func file(at path: String) -> ino_t {
            var status = stat()
            return lstat(path, &status) == 0 ? status.st_ino : 0
        }

        private enum Leaves {
            case nothing, path, folder
        }

        /// The value for `DBUS_SESSION_BUS_ADDRESS`.
        public var address: String {
            let plain = Set("-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz/.".utf8)
            let escaped = path.utf8.map {
                plain.contains($0) ? String(UnicodeScalar($0)) : "%\([$0].hexadecimal)"
            }
            return "unix:path=\(escaped.joined())"
        }

        /// Creates a socket in a new folder that only this user can enter: in `XDG_RUNTIME_DIR` if that is there, otherwise in
        /// `TMPDIR` or `/tmp`.
        ///
        /// - Throws: ``SecretServiceError`` if none of them can be used.
        public static func temporary() throws -> SecretServiceSocket {
            var failure: CInt = 0
            for parent in [Self.variable("XDG_RUNTIME_DIR"), Self.variable("TMPDIR"), "/tmp"].compactMap(
                \.self
            ) {
                guard isSafe(parent), let folder = makeFolder(in: parent, &failure) else { continue }
                let path = "\(folder)/bus"
                let listener = listen_at(path)
                if listener >= 0 {
                    return SecretServiceSocket(path: path, listener: listener, leaves: .folder)
                }
                rmdir(folder)
                failure = -listener
            }
            throw SecretServiceError("No socket can be made", failure)
        }

        /// Creates a socket at a path, in place of one where no process listens any longer.
        ///
        /// - Parameter path: At most 107 bytes. Only this user should be able to write into its folder.
        /// - Throws: ``SecretServiceError`` if a process listens there, other users could replace the socket, or it cannot be made.
        public static func at(_ path: String) throws -> SecretServiceSocket {
            let folder = path.lastIndex(of: "/").map { String(path[...$0]) } ?? "."
            if !isSafe(folder) {
                throw SecretServiceError(
                    "Other users may write into the folder of \(path). Name another path."
                )
            }
            if is_listened_at(path) != 0 {
                throw SecretServiceError(
                    "\(path) is the socket of a service that runs. Stop it, or name another path."
                )
            }
            var status = stat()
            if lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFSOCK { unlink(path) }
            let listener = listen_at(path)
            guard listener >= 0 else {
                throw SecretServiceError("The socket \(path) cannot be made", -listener)
            }
            return SecretServiceSocket(path: path, listener: listener, leaves: .path)
        }

        /// The socket that systemd has made and passed.
        ///
        /// - Throws: ``SecretServiceError`` if there is none.
        public static func ofSystemd() throws -> SecretServiceSocket {
            let listener = SD_LISTEN_FDS_START
            guard sd_listen_fds(1) == 1, sd_is_socket_unix(listener, unix_stream, 1, nil, 0) > 0,
                fcntl(listener, F_SETFL, O_NONBLOCK) == 0
            else {
                throw SecretServiceError(
                    "systemd has passed no socket. Start the service by its socket unit."
                )
            }
            return SecretServiceSocket(path: "", listener: listener, leaves: .nothing)
        }

        /// Tells systemd that the service is ready.
        public func announce() { sd_notify(0, "READY=1") }

        /// Closes the socket. Removes it, and its folder, if they were made for it.
        public func remove() {
            close(listener)
            if leaves != .nothing, Self.file(at: path) == file { unlink(path) }
            if leaves == .folder { rmdir(String(path.dropLast("/bus".utf8.count))) }
        }

        /// Whether other users cannot put something else in the place of what is in a folder. `su` may leave another user's variables.
        private static func isSafe(_ folder: String) -> Bool {
            var status = stat()
            guard stat(folder, &status) == 0, status.st_uid == geteuid() || status.st_uid == 0 else {
                return false
            }
            return status.st_mode & 0o022 == 0 || status.st_mode & S_ISVTX != 0
        }

        private static func variable(_ name: String) -> String? {
            getenv(name).flatMap { $0.pointee == UInt8(ascii: "/") ? String(validatingCString: $0) : nil }
        }

        private static func makeFolder(in parent: String, _ failure: inout CInt) -> String? {
            var template = Array("\(parent)/lockbox.XXXXXX".utf8CString)
            let isMade = template.withUnsafeMutableBufferPointer { mkdtemp($0.baseAddress!) != nil }
            if !isMade { failure = errno }
            return isMade ? template.withUnsafeBufferPointer { String(cString: $0.baseAddress!) } : nil
        }
    }
#endif
