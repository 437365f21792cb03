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
