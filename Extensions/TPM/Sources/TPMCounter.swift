#if TPM
    import CTSS2
    public import LockboxCore
    public import LockboxStore

    /// A monotonic counter in the non-volatile memory of a TPM. With it, a store detects that an older copy of itself was
    /// restored.
    ///
    /// A counter that is removed and defined again continues above every value that any counter of the TPM has had, even after
    /// the TPM was cleared. So a lower value never comes back.
    ///
    /// Anyone who can use the TPM can read and increment the counter; its owner can remove it. Its value is not secret, and the
    /// connection to the TPM is neither encrypted nor authenticated. It does not protect from an attacker who can change data on
    /// the bus.
    ///
    /// Each increment writes to the TPM's flash memory, which endures about 100,000 writes: increment once per change of the
    /// keybag, not once per change of an item.
    ///
    /// > Important: Tested with the software TPM swtpm, and not with a chip yet.
    public struct TPMCounter: GenerationCounter {
        /// The default index: one of those that the TCG leaves to the owner of a machine.
        public static let defaultIndex: UInt32 = 0x0181_10cb

        private let index: UInt32
        private let tcti: String

        /// Creates a handle for a counter. Does not access the TPM.
        ///
        /// - Parameters:
        ///   - index: The index in the TPM's non-volatile memory, 0x01800000 to 0x01bfffff. Programs that use the same
        ///     index use the same counter.
        ///   - tcti: The TPM; see ``TPMUnlock/init(pin:strength:tcti:)``.
        public init(index: UInt32 = TPMCounter.defaultIndex, tcti: String = TPMUnlock.defaultTCTI) {
            self.index = index
            self.tcti = tcti
        }

        /// Reads the counter.
        ///
        /// - Returns: The value, or `nil` if the TPM has no such counter, or it was never incremented. If there was one
        ///   before, the TPM was cleared or replaced, or the counter was removed: do not take `nil` for the first
        ///   use.
        /// - Throws: ``LockboxError/notReachable(endpoint:reason:)``, ``LockboxError/accessDenied(endpoint:reason:)``;
        ///   ``LockboxError/invalidKey(reason:)`` if something else is at the index.
        @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { _ in }.")
        public func read() throws(LockboxError) -> UInt64? {
            try TPMConnection.with(tcti) { tpm throws(LockboxError) in
                try tpm.value(ofCounterAt: index)
            }
        }

        /// Increments the counter by one.
        ///
        /// - Returns: The new value. If two processes increment at the same time, both may get the higher value.
        /// - Throws: ``LockboxError/missing(record:)`` if there is no such counter; the errors of ``read()``.
        @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { _ in }.")
        public func increment() throws(LockboxError) -> UInt64 {
            try TPMConnection.with(tcti) { tpm throws(LockboxError) in
                try tpm.increment(counterAt: index)
            }
        }

        /// Defines the counter and increments it once, so that it has a value.
        ///
        /// The TPM's owner authorization must be empty, as it is on most machines.
        ///
        /// - Returns: The first value. It need not be 1.
        /// - Throws: ``LockboxError/invalidKey(reason:)`` if the counter exists and has a value;
        ///   ``LockboxError/accessDenied(endpoint:reason:)`` if the owner has a password; the errors of ``read()``.
        @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { _ in }.")
        public func define() throws(LockboxError) -> UInt64 {
            try TPMConnection.with(tcti) { tpm throws(LockboxError) in
                if try tpm.value(ofCounterAt: index) != nil {
                    throw .invalidKey(
                        reason:
                            "\(TPMConnection.name(ofCounter: index)) already exists; use another index, or undefine it"
                    )
                }
                // A process may have ended between the two.
                if try tpm.withCounter(index, { _ in true }) == nil { try tpm.define(index) }
                return try tpm.increment(counterAt: index)
            }
        }

        /// Removes the counter. Does nothing if there is none.
        ///
        /// - Throws: ``LockboxError/accessDenied(endpoint:reason:)`` if the owner has a password; the errors of ``read()``.
        @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { _ in }.")
        public func undefine() throws(LockboxError) {
            try TPMConnection.with(tcti) { tpm throws(LockboxError) in
                _ = try tpm.withCounter(index) { counter throws(LockboxError) in try tpm.undefine(counter) }
            }
        }
    }

    extension TPMConnection {
        fileprivate static func name(ofCounter index: UInt32) -> String {
            "TPM counter 0x\(String(index, radix: 16))"
        }

        /// Calls `body` with a counter. Returns nil if there is none.
        fileprivate func withCounter<Result>(
            _ index: UInt32,
            _ body: (ESYS_TR) throws(LockboxError) -> Result
        ) throws(LockboxError)
            -> Result?
        {
            guard var handle = try object(at: index) else { return nil }
            // Has no effect if `body` has removed it.
            defer { Esys_TR_Close(context, &handle) }
            var area: UnsafeMutablePointer<TPM2B_NV_PUBLIC>?
            try check(Esys_NV_ReadPublic(context, handle, none, none, none, &area, nil), "Esys_NV_ReadPublic")
            defer { Esys_Free(area) }
            guard let found = area?.pointee.nvPublic, found.dataSize == 8,
                found.attributes & TPMA_NV_TPM2_NT_MASK == TPMConnection.isCounter
            else {
                let index = "0x\(String(index, radix: 16))"
                throw LockboxError.invalidKey(
                    reason:
                        "the index \(index) of the TPM has something other than a counter; use another index"
                )
            }
            return try body(handle)
        }

        /// Returns nil if there is no counter, or it was never incremented.
        fileprivate func value(ofCounterAt index: UInt32) throws(LockboxError) -> UInt64? {
            try withCounter(index) { counter throws(LockboxError) in try value(of: counter) } ?? nil
        }

        /// Returns the new value.
        fileprivate func increment(counterAt index: UInt32) throws(LockboxError) -> UInt64 {
            let incremented = try withCounter(index) { counter throws(LockboxError) in
                try increment(counter)
                return try value(of: counter)
            }
            guard let value = incremented ?? nil else {
                throw .missing(record: .other(TPMConnection.name(ofCounter: index)))
            }
            return value
        }

        private static let isCounter = TPMA_NV(TPM2_NT_COUNTER) << 4

        /// Returns nil if it was never incremented.
        fileprivate func value(of counter: ESYS_TR) throws(LockboxError) -> UInt64? {
            var data: UnsafeMutablePointer<TPM2B_MAX_NV_BUFFER>?
            let code = Esys_NV_Read(context, counter, counter, password, none, none, 8, 0, &data)
            if TPMError.Code(code) == .neverWritten { return nil }
            try check(code, "Esys_NV_Read")
            defer { Esys_Free(data) }
            guard let data, data.pointee.size == 8 else {
                throw failure("the TPM's answer has a wrong length")
            }
            return withUnsafeBytes(of: &data.pointee.buffer) {
                UInt64(bigEndian: $0.loadUnaligned(as: UInt64.self))
            }
        }

        fileprivate func increment(_ counter: ESYS_TR) throws(LockboxError) {
            let code = Esys_NV_Increment(context, counter, counter, password, none, none)
            try check(code, "Esys_NV_Increment")
        }

        fileprivate func define(_ index: UInt32) throws(LockboxError) {
            var (authorization, area) = (TPM2B_AUTH(), TPM2B_NV_PUBLIC())
            area.nvPublic.nvIndex = index
            area.nvPublic.nameAlg = TPMI_ALG_HASH(TPM2_ALG_SHA256)
            area.nvPublic.attributes =
                TPMConnection.isCounter | TPMA_NV_AUTHREAD | TPMA_NV_AUTHWRITE | TPMA_NV_OWNERREAD
                | TPMA_NV_OWNERWRITE | TPMA_NV_NO_DA
            area.nvPublic.dataSize = 8
            var handle = none
            let code = Esys_NV_DefineSpace(
                context,
                owner,
                password,
                none,
                none,
                &authorization,
                &area,
                &handle
            )
            // Another process may have been faster.
            if TPMError.Code(code) != .defined { try check(code, "Esys_NV_DefineSpace") }
            if handle != none { Esys_TR_Close(context, &handle) }
        }

        fileprivate func undefine(_ counter: ESYS_TR) throws(LockboxError) {
            let code = Esys_NV_UndefineSpace(context, owner, counter, password, none, none)
            try check(code, "Esys_NV_UndefineSpace")
        }
    }
#endif
