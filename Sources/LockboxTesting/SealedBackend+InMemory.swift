@_spi(Extensions) public import LockboxStore

extension SealedBackend {
    /// Creates an empty store in memory: with passcode, lock and backups as on disk, but without quarantine.
    ///
    /// - Parameters:
    ///   - deviceKey: The source of the device key. By default, the key is kept beside the items.
    ///   - requirements: The program's requirements for the store.
    public static func inMemory(
        deviceKey: DeviceKeySource = .stored,
        requires requirements: StoreRequirements = StoreRequirements()
    ) -> SealedBackend {
        SealedBackend(temporary: InMemoryStorage(), deviceKey: deviceKey, requires: requirements)
    }
}
