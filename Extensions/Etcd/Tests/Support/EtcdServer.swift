#if Etcd
    import Foundation

    import LockboxCore

    /// A member of a cluster: a process of etcd, which ends with this one, however that ends.
    final class EtcdServer: @unchecked Sendable {
        // Unchecked: what changes is protected by the lock.

        static let program = path(of: "etcd")

        /// Where `Scripts/traits` looks for it too.
        static func path(of program: String) -> String? {
            (ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin").split(separator: ":")
                .map { "\($0)/\(program)" }.first { FileManager.default.isExecutableFile(atPath: $0) }
        }

        static var isInstalled: Bool { program != nil }

        struct Options {
            var certificates: Certificates?
            var requiresClientCertificate = false
            var arguments: [String] = []
        }

        let name: String
        let clientPort: Int
        let peerPort: Int
        let folder: String
        private let options: Options
        private let state = Protected<(keeper: Process, input: Pipe, id: pid_t)?>(nil)

        init(name: String, folder: String, options: Options) throws {
            self.name = name
            self.folder = "\(folder)/\(name)"
            self.options = options
            clientPort = try TCPSocket.freePorts()
            peerPort = try TCPSocket.freePorts()
        }

        deinit { end() }

        var endpoint: String { "\(options.certificates == nil ? "http" : "https")://127.0.0.1:\(clientPort)" }
        var peer: String { "\(name)=http://127.0.0.1:\(peerPort)" }

        /// - Parameter token: Makes another cluster of the same members.
        func start(cluster: String, token: String = "first") throws {
            let process = Process()
            process.executableURL = URL(fileURLWithPath: "/bin/sh")
            // A member that runs on one processor takes a quarter less of its time.
            process.environment = ProcessInfo.processInfo.environment.merging(["GOMAXPROCS": "1"]) { $1 }
            // The shell waits for the end of its input, which this process holds open.
            let script =
                #"log=$1; shift; "$@" >"$log" 2>&1 </dev/null & echo $!; read _; kill -9 $! 2>/dev/null"#
            process.arguments =
                ["-c", script, "sh", "\(folder).log", EtcdServer.program!] + arguments(cluster, token)
            let (input, output) = try starting.withLock {
                let pipes = (Pipe(), Pipe())
                _ = fcntl(pipes.0.fileHandleForWriting.fileDescriptor, F_SETFD, FD_CLOEXEC)
                process.standardInput = pipes.0
                process.standardOutput = pipes.1
                try process.run()
                return pipes
            }
            let text = String(decoding: output.fileHandleForReading.availableData, as: UTF8.self)
            guard let id = pid_t(text.trimmingCharacters(in: .whitespacesAndNewlines)) else {
                throw CocoaError(.executableLoad)
            }
            state.withLock { $0 = (process, input, id) }
        }

        private func arguments(_ cluster: String, _ token: String) -> [String] {
            let peer = "http://127.0.0.1:\(peerPort)"
            var arguments = [
                "--name", name, "--data-dir", folder, "--initial-cluster", cluster, "--logger", "zap",
                "--initial-cluster-token", token,
                "--listen-client-urls", endpoint, "--advertise-client-urls", endpoint,
                "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
            ]
            if let certificates = options.certificates {
                arguments += ["--cert-file", certificates.server, "--key-file", certificates.serverKey]
                if options.requiresClientCertificate {
                    arguments += ["--client-cert-auth", "--trusted-ca-file", certificates.authority]
                }
            }
            return arguments + options.arguments
        }

        private func send(_ signal: CInt) { state.withLock { if let id = $0?.id { _ = kill(id, signal) } } }

        /// It no longer answers, but its connections stay.
        func pause() {
            send(SIGSTOP)
            // Each thread goes on until it has seen the signal, and might answer once more.
            let end = ContinuousClock.now + .seconds(10)
            while !isPaused, .now < end { usleep(1000) }
        }

        private var isPaused: Bool {
            guard let id = state.withLock({ $0?.id }),
                let threads = try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(id)/task")
            else { return true }
            return threads.allSatisfy { thread in
                let status = try? String(contentsOfFile: "/proc/\(id)/task/\(thread)/stat", encoding: .utf8)
                return status?.split(separator: ")").last?.hasPrefix(" T") ?? true
            }
        }

        func resume() { send(SIGCONT) }

        /// Like a crash of the machine, but keeps what was written.
        func end() {
            let old = state.withLock { state in
                defer { state = nil }
                return state
            }
            guard let old else { return }
            _ = kill(old.id, SIGKILL)
            // The ports are free after its last thread has ended, which is later than the process seems to have.
            while isRunning(old.id) || !TCPSocket.isFree(clientPort) || !TCPSocket.isFree(peerPort) {
                usleep(1000)
            }
            try? old.input.fileHandleForWriting.close()
            _ = kill(old.keeper.processIdentifier, SIGKILL)
        }
    }

    /// Whether a process still has its files and ports.
    private func isRunning(_ id: pid_t) -> Bool {
        guard let status = try? String(contentsOfFile: "/proc/\(id)/stat", encoding: .utf8) else {
            return false
        }
        return !status.contains(") Z ") && !status.contains(") X ")
    }

    /// One process is started at a time: otherwise it could inherit the input of another one's shell, and hold it open.
    private let starting = Lock()
#endif
