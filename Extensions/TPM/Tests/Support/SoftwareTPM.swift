#if TPM
    import CTSS2
    import Foundation
    import LockboxCore
    import Testing

    @testable import LockboxTPM

    /// All tests that use a software TPM, one after the other: a swtpm that is started inherits every connection that is open,
    /// as tpm2-tss does not have them closed, and the swtpm at its other end then serves nobody else.
    @Suite(.serialized, .enabled(if: SoftwareTPM.program != nil, "swtpm is not installed"))
    enum TPMTests {}

    /// A software TPM, swtpm, with a state of its own. It is stopped and removed with the object.
    final class SoftwareTPM: @unchecked Sendable {  // used by one test, which waits for its threads
        static let program = ProcessInfo.processInfo.environment["PATH"]?.split(separator: ":")
            .map { "\($0)/swtpm" }.first { FileManager.default.isExecutableFile(atPath: $0) }

        private let folder: URL
        private var process: Process?
        private(set) var port = 0

        var tcti: String { "swtpm:host=127.0.0.1,port=\(port)" }

        struct NotStarted: Error {}

        init() throws {
            folder = FileManager.default.temporaryDirectory.appending(path: "lockbox-swtpm.\(UUID())")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            try start()
        }

        deinit {
            kill()
            try? FileManager.default.removeItem(at: folder)
        }

        /// Starts it with the state that it has left. Another process may take the ports, so it tries again.
        func start() throws {
            for _ in 0..<20 {
                port = try TCPSocket.freePorts(2)
                let process = Process()
                process.executableURL = URL(filePath: Self.program!)
                process.arguments = [
                    "socket", "--tpm2", "--tpmstate", "dir=\(folder.path)", "--server",
                    "type=tcp,port=\(port)",
                    "--ctrl", "type=tcp,port=\(port + 1)", "--flags", "not-need-init,startup-clear",
                ]
                process.standardOutput = FileHandle.nullDevice
                process.standardError = FileHandle.nullDevice
                try process.run()
                self.process = process
                if waitUntilReady(process) { return }
                kill()
            }
            throw NotStarted()
        }

        private func waitUntilReady(_ process: Process) -> Bool {
            for _ in 0..<500 where process.isRunning {
                if (try? TPMConnection.with(tcti, attempts)) != nil { return true }
                usleep(10_000)
            }
            return false
        }

        /// Ends it as a power cut does.
        func kill() {
            guard let process else { return }
            Foundation.kill(process.processIdentifier, SIGKILL)
            process.waitUntilExit()
            self.process = nil
        }

        func restart() throws {
            kill()
            try start()
        }

        // MARK: For tests

        /// The objects and sessions that it holds.
        func loaded() throws -> [UInt32] {
            try handles(0x8000_0000) + handles(0x0200_0000) + handles(0x0300_0000)
        }

        private func handles(_ first: UInt32) throws -> [UInt32] {
            try TPMConnection.with(tcti) { tpm throws(LockboxError) in
                var data: UnsafeMutablePointer<TPMS_CAPABILITY_DATA>?
                let none = tpm.none
                let kind = TPM2_CAP(TPM2_CAP_HANDLES)
                try tpm.check(
                    Esys_GetCapability(tpm.context, none, none, none, kind, first, 32, nil, &data),
                    "Esys_GetCapability"
                )
                defer { Esys_Free(data) }
                return withUnsafeBytes(of: &data!.pointee.data.handles.handle) { bytes in
                    Array(bytes.bindMemory(to: UInt32.self).prefix(Int(data!.pointee.data.handles.count)))
                }
            }
        }

        private func attempts(_ tpm: TPMConnection) throws(LockboxError) -> (
            failed: UInt32, most: UInt32, seconds: UInt32
        )? {
            try tpm.attempts()
        }

        func failedAttempts() throws -> UInt32? { try TPMConnection.with(tcti, attempts)?.failed }

        /// A new swtpm takes three.
        func mostAttempts() throws -> UInt32? { try TPMConnection.with(tcti, attempts)?.most }

        func clear() throws {
            try TPMConnection.with(tcti) { tpm throws(LockboxError) in
                let none = tpm.none
                let lockout = ESYS_TR(ESYS_TR_RH_LOCKOUT)
                try tpm.check(
                    Esys_Clear(tpm.context, lockout, tpm.password, none, none),
                    "Esys_Clear"
                )
            }
        }

        enum Hierarchy { case owner, lockout }

        func setPassword(of hierarchy: Hierarchy) throws {
            try TPMConnection.with(tcti) { tpm throws(LockboxError) in
                let none = tpm.none
                var password = TPM2B_AUTH()
                password.size = 4
                password.buffer.0 = 7
                password.buffer.3 = 7
                let code = Esys_HierarchyChangeAuth(
                    tpm.context,
                    hierarchy == .owner ? tpm.owner : ESYS_TR(ESYS_TR_RH_LOCKOUT),
                    tpm.password,
                    none,
                    none,
                    &password
                )
                try tpm.check(code, "Esys_HierarchyChangeAuth")
            }
        }

        /// Defines something at the index of ``TPMCounter``.
        func defineIndex(type: UInt32, size: UInt16) throws {
            try TPMConnection.with(tcti) { tpm throws(LockboxError) in
                let none = tpm.none
                var (authorization, area, handle) = (TPM2B_AUTH(), TPM2B_NV_PUBLIC(), none)
                area.nvPublic.nvIndex = TPMCounter.defaultIndex
                area.nvPublic.nameAlg = TPMI_ALG_HASH(TPM2_ALG_SHA256)
                area.nvPublic.attributes = type << 4 | TPMA_NV_AUTHREAD | TPMA_NV_AUTHWRITE
                area.nvPublic.dataSize = size
                let code = Esys_NV_DefineSpace(
                    tpm.context,
                    tpm.owner,
                    tpm.password,
                    none,
                    none,
                    &authorization,
                    &area,
                    &handle
                )
                try tpm.check(code, "Esys_NV_DefineSpace")
            }
        }

        /// Has the TPM keep the storage root key, as the set-up of some systems does.
        func keepStorageRootKey() throws {
            try TPMConnection.with(tcti) { tpm throws(LockboxError) in
                try tpm.withStorageRootKey { primary throws(LockboxError) in
                    let none = tpm.none
                    var kept = none
                    let code = Esys_EvictControl(
                        tpm.context,
                        tpm.owner,
                        primary,
                        tpm.password,
                        none,
                        none,
                        0x8100_0001,
                        &kept
                    )
                    try tpm.check(code, "Esys_EvictControl")
                    Esys_TR_Close(tpm.context, &kept)
                }
            }
        }
    }
#endif
