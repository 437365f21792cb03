#if TPM
    public import LockboxCore

    extension TPMUnlock {
        /// Makes the TPM forget the wrong PINs that it has counted.
        ///
        /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous
        /// form.
        public func resetLockout() async throws(LockboxError) {
            try await offPool { () throws(LockboxError) in try resetLockout() }
        }
    }
#endif
