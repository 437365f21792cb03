#if Etcd
    public import LockboxCore

    extension EtcdStorage {
        /// Asks every endpoint for its status, one after the other.
        ///
        /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous
        /// form.
        public func members(
            timeLimit: Duration = .seconds(1)
        ) async -> [Result<EtcdMember, LockboxError>] {
            await offPool { self.members(timeLimit: timeLimit) }
        }

        /// Makes the cluster forget every value that was replaced or removed by now: those of this store, and **those of
        /// everybody else who uses the cluster**.
        ///
        /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous
        /// form.
        public func compact() async throws { try await offPool { try self.compact() } }
    }
#endif
