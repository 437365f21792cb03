import LockboxCore
import LockboxPlatform

#if canImport(Darwin)
    /// The system's ID of this machine, gethostuuid(2).
    ///
    /// - Throws: ``LockboxError/notSupported(operation:)`` except on macOS, whose other systems keep it from apps.
    func machineIdentifier() throws -> String {
        #if os(macOS)
            var identifier = uuid_t(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
            var limit = timespec(tv_sec: 1, tv_nsec: 0)
            let result = withUnsafeMutablePointer(to: &identifier.0) { gethostuuid($0, &limit) }
            if result == 0 { return UUID(uuid: identifier).uuidString }
            throw LockboxError.storageFailure(operation: "gethostuuid", path: "/", errno: errno)
        #else
            throw LockboxError.notSupported(operation: "telling this device from others")
        #endif
    }
#endif
