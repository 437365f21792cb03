#if Etcd
    import Foundation
    import Testing

    @_spi(Extensions) import LockboxCore
    @testable import LockboxEtcd
    @_spi(Extensions) @testable import LockboxStore

    /// The traces of a connection in the process.
    struct ConnectionTests {
        /// The descriptors of connections to a port.
        private func descriptors(to port: UInt16) throws -> [CInt] {
            let names = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")
            return names.compactMap { CInt($0) }.filter { descriptor in
                var address = sockaddr_in()
                var length = socklen_t(MemoryLayout<sockaddr_in>.size)
                let result = withUnsafeMutablePointer(to: &address) { pointer in
                    pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                        getpeername(descriptor, $0, &length)
                    }
                }
                return result == 0 && address.sin_family == AF_INET && address.sin_port == port.bigEndian
            }
        }

        /// In a thread with a mount namespace of its own, in which names are asked for where nobody answers.
        @Test(.enabled(if: SilentNameServer.isPermitted, "another resolv.conf cannot be mounted"))
        func aNameServerThatIsSilentDoesNotDelayACall() throws {
            let server = try SilentNameServer()
            let storage = try EtcdStorage(
                endpoints: ["http://member.silent.invalid:1"],
                root: "/r",
                security: .insecurePlaintext,
                timeLimit: .seconds(2)
            )
            let result = Protected<(duration: Duration, code: LockboxError.Code?)?>(nil)
            let ended = DispatchSemaphore(value: 0)
            try detachThread {
                defer { ended.signal() }
                guard server.isUsedByThisThread() else { return }
                let begin = ContinuousClock.now
                let code: LockboxError.Code?
                do {
                    _ = try storage.namespaces()
                    code = nil
                } catch { code = (error as? LockboxError)?.code }
                result.withLock { $0 = (.now - begin, code) }
            }
            ended.wait()
            let found = try #require(result.withLock { $0 })
            #expect(server.wasAsked, "or this tests nothing")
            #expect(found.code == .notReachable)
            #expect(found.duration < .seconds(3))
        }

        /// `lockbox exec` replaces itself by a program, which must not talk to etcd with its connections.
        @Test(.enabled(if: EtcdServer.isInstalled, "etcd is not installed"))
        func aProgramThatIsRunDoesNotInheritConnections() throws {
            let cluster = try EtcdCluster.shared.get()
            let relay = try Relay(to: cluster.members[0].clientPort)
            let storage = try cluster.storage(EtcdCluster.root(), endpoints: [relay.endpoint])
            let cancel = try storage.subscribe(to: "n") { _ in }
            defer { cancel() }
            let deadline = ContinuousClock.now + .seconds(20)
            while relay.connections < 2, ContinuousClock.now < deadline { usleep(1000) }
            let port = try #require(relay.endpoint.split(separator: ":").last.flatMap { UInt16($0) })
            let open = try descriptors(to: port)
            #expect(open.count == 2, "that of the call, and that of the subscription")
            #expect(open.allSatisfy { fcntl($0, F_GETFD) & FD_CLOEXEC != 0 })
        }
    }
#endif
