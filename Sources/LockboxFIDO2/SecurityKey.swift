#if FIDO2
    import CFIDO2
    import LockboxCore
    import LockboxPlatform
    import LockboxSodium

    /// Where a security key is.
    struct SecurityKey: Sendable {
        /// nil: the first one that is found.
        let path: String?
        /// Called before the key is opened. Tests put theirs in the place of the device.
        var prepare: @Sendable (OpaquePointer) -> Void = { _ in }

        private static let ready: Void = fido_init(0)
        private static let milliseconds: CInt = 60_000

        /// Opens the key, and closes it after `body`.
        func withOpen<Result>(_ body: (OpenSecurityKey) throws -> Result) throws -> Result {
            _ = Self.ready
            let path = try path ?? first()
            var device = fido_dev_new()
            guard let opened = device else { throw LockboxError.notEnoughMemory(bytes: 4096) }
            defer { fido_dev_free(&device) }
            prepare(opened)
            let code = fido_dev_open(opened, path)
            guard code == FIDO_OK else { throw SecurityKeyError.cannotOpen(path, code) }
            defer { fido_dev_close(opened) }
            fido_dev_set_timeout(opened, Self.milliseconds)
            return try body(OpenSecurityKey(endpoint: path, device: opened))
        }

        private func first() throws -> String {
            var list = fido_dev_info_new(1)
            defer { fido_dev_info_free(&list, 1) }
            var count = 0
            guard fido_dev_info_manifest(list, 1, &count) == FIDO_OK, count > 0,
                let path = fido_dev_info_path(fido_dev_info_ptr(list, 0))
            else {
                throw LockboxError.notReachable(
                    endpoint: "The security key",
                    reason: "none was found; plug one in, and check that this user may open it"
                )
            }
            return String(cString: path)
        }
    }
#endif
