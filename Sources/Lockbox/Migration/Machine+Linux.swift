import LockboxPlatform

#if canImport(Glibc) || canImport(Musl)
    /// The system's ID of this machine, machine-id(5).
    ///
    /// - Throws: ``LockboxError/storageFailure(operation:path:errno:explanation:)`` if there is no such file, as in many containers;
    ///   ``LockboxError/corrupt(record:reason:)`` if it is empty.
    func machineIdentifier() throws -> String { try Machine.identifier(inFile: "/etc/machine-id") }
#endif
