#if Configuration
    import Configuration
    import LockboxCore
    import LockboxPlatform

    /// What a read of one item has given. Nil, where it is optional: there is no such item.
    enum Reading: Sendable {
        case item(StoredItem)
        case failure(any Error)

        /// Reads from the store. Nil if there is no such item.
        init?(_ name: String, _ lockbox: Lockbox) {
            do {
                let item = try lockbox.backend.item(for: lockbox.itemKey(name), now: lockbox.now())
                guard let item else { return nil }
                self = .item(item)
            } catch { self = .failure(error) }
        }
    }

    extension Reading? {
        func result(_ name: String, _ type: ConfigType, _ lockbox: Lockbox, at date: Date) throws
            -> LookupResult
        {
            switch self {
            case nil: return LookupResult(encodedKey: name, value: nil)
            case .failure(let error): throw error
            case .item(let item):
                if item.attributes.isExpired(at: date) { return LookupResult(encodedKey: name, value: nil) }
                let content = try lockbox.content(item.value, name, type)
                return LookupResult(encodedKey: name, value: ConfigValue(content, isSecret: true))
            }
        }
    }
#endif
