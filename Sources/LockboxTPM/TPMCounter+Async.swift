#if TPM
    public import LockboxCore

    extension TPMCounter {
        /// Reads the counter. Returns nil if the TPM has no such counter.
        ///
        /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous
        /// form.
        public func read() async throws(LockboxError) -> UInt64? {
            try await offPool { () throws(LockboxError) in try read() }
        }

        /// Increments the counter by one, and returns the new value.
        ///
        /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous
        /// form.
        public func increment() async throws(LockboxError) -> UInt64 {
            try await offPool { () throws(LockboxError) in try increment() }
        }

        /// Makes the counter and increments it once, so that it has a value, which is returned.
        ///
        /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous
        /// form.
        public func define() async throws(LockboxError) -> UInt64 {
            try await offPool { () throws(LockboxError) in try define() }
        }

        /// Removes the counter. Does nothing if there is none.
        ///
        /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous
        /// form.
        public func undefine() async throws(LockboxError) {
            try await offPool { () throws(LockboxError) in try undefine() }
        }
    }
#endif
