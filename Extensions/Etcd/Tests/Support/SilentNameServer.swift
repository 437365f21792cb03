#if Etcd
    import Foundation

    import LockboxCore

    /// A name server that receives questions and answers none.
    final class SilentNameServer: Sendable {
        private let socket: CInt
        private let configuration: String

        init() throws {
            let socket = Glibc.socket(AF_INET, CInt(SOCK_DGRAM.rawValue), 0)
            let last = UInt32.random(in: 1...254)
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_port = UInt16(53).bigEndian
            address.sin_addr.s_addr = (0x7F00_3500 | last).bigEndian
            let result = withUnsafePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    bind(socket, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
                }
            }
            guard result == 0 else { throw CocoaError(.fileWriteUnknown) }
            self.socket = socket
            configuration =
                NSTemporaryDirectory() + "lockbox-resolv-\(UInt64.random(in: .min ... .max)).conf"
            try "nameserver 127.0.53.\(last)\n".write(
                toFile: configuration,
                atomically: false,
                encoding: .utf8
            )
        }

        deinit {
            close(socket)
            try? FileManager.default.removeItem(atPath: configuration)
        }

        /// A container may have no right to mount.
        static let isPermitted: Bool = {
            let (result, ended) = (Protected(false), DispatchSemaphore(value: 0))
            Thread.detachNewThread {
                if let server = try? SilentNameServer(), server.isUsedByThisThread() {
                    result.withLock { $0 = true }
                }
                ended.signal()
            }
            ended.wait()
            return result.withLock { $0 }
        }()

        /// From now on this thread, and those that it makes, ask it for names. False if that is not permitted.
        func isUsedByThisThread() -> Bool {
            typealias Unshare = @convention(c) (CInt) -> CInt
            typealias Mount =
                @convention(c) (
                    UnsafePointer<CChar>?, UnsafePointer<CChar>, UnsafePointer<CChar>?, UInt,
                    UnsafeRawPointer?
                ) -> CInt
            // Glibc's module has neither.
            guard let first = dlsym(nil, "unshare"), let second = dlsym(nil, "mount") else { return false }
            let (unshare, mount) = (
                unsafeBitCast(first, to: Unshare.self), unsafeBitCast(second, to: Mount.self)
            )
            let (newNamespace, recursive, isPrivate, bind): (CInt, UInt, UInt, UInt) = (
                0x20000, 0x4000, 0x40000, 0x1000
            )
            return unshare(newNamespace) == 0 && mount(nil, "/", nil, recursive | isPrivate, nil) == 0
                && mount(configuration, "/etc/resolv.conf", nil, bind, nil) == 0
        }

        var wasAsked: Bool {
            var byte: UInt8 = 0
            return recv(socket, &byte, 1, CInt(MSG_DONTWAIT)) > 0
        }
    }
#endif
