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

    extension Reading {
        /// Whether it says nothing about the item.
        var isForNow: Bool {
            guard case .failure(let error as LockboxError) = self else { return false }
            return [.interactionNotAllowed, .notReachable, .accessDenied, .lockTimeout, .unreadable].contains(
                error.code
            )
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

    extension Lockbox {
        fileprivate func content(_ value: ArchivedValue, _ name: String, _ type: ConfigType) throws
            -> ConfigContent
        {
            func decoded<Value: Decodable>(_ type: Value.Type) throws -> Value {
                try unarchive(type, value, name)
            }
            /// A number that was archived as such, or as text.
            func parsed<Value: Decodable>(_ parse: (String) -> Value?) throws -> Value {
                if value.format != .data, let number = try? decoded(Value.self) { return number }
                guard let number = parse(try text()) else {
                    throw LockboxError.typeMismatch(key: name, stored: value.format, type: "\(Value.self)")
                }
                return number
            }
            func text() throws -> String {
                guard value.format == .data else { return try decoded(String.self) }
                guard let text = String(validating: value.data, as: UTF8.self) else {
                    throw LockboxError.typeMismatch(key: name, stored: value.format, type: "String")
                }
                return text
            }
            switch type {
            case .string: return .string(try text())
            case .int: return .int(try parsed { Int($0) })
            case .double: return .double(try parsed { Double($0) })
            case .bool: return .bool(try parsed { Bool($0) })
            case .bytes: return .bytes(value.format == .data ? Array(value.data) : Array(try text().utf8))
            case .stringArray: return .stringArray(try decoded([String].self))
            case .intArray: return .intArray(try decoded([Int].self))
            case .doubleArray: return .doubleArray(try decoded([Double].self))
            case .boolArray: return .boolArray(try decoded([Bool].self))
            case .byteChunkArray: return .byteChunkArray(try decoded([Data].self).map { Array($0) })
            }
        }
    }
#endif
