#if Configuration
    import Configuration
    import LockboxCore
    import LockboxPlatform

    /// What was in memory at one time.
    struct Snapshot: ConfigSnapshot {
        let providerName: String
        let lockbox: Lockbox
        let contents: Contents
        let date: Date

        func value(forKey key: AbsoluteConfigKey, type: ConfigType) throws -> LookupResult {
            let name = key.components.joined(separator: ".")
            _ = try lockbox.itemKey(name)
            return try contents.reading(name, lockbox).result(name, type, lockbox, at: date)
        }
    }

    extension Snapshot: CustomStringConvertible, CustomReflectable {
        var description: String { "Snapshot(\(providerName))" }
        var customMirror: Mirror { Mirror(self, children: []) }
    }
#endif
