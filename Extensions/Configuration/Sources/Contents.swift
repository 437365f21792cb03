#if Configuration
    import Configuration
    @_spi(Extensions) import Lockbox
    import LockboxCore
    import LockboxPlatform

    /// The readings of all items. A read that began earlier than the last one of an item replaces nothing.
    struct Contents: Sendable {
        private(set) var items: [String: Reading] = [:]
        /// Whether there are damaged items whose keys are not known. An absent key may be that of one.
        private(set) var hasUnnamed = false
        /// Items that could not be read for now.
        private(set) var postponed: Set<String> = []
        /// How often something could be read that was postponed.
        private(set) var recoveries = 0

        private var begun = 0
        /// The last read that had begun when all could not be read for now.
        private var allPostponed: Int?
        private var last: [String: Int] = [:]

        /// Returns the number of a read that begins now.
        mutating func begin() -> Int {
            begun += 1
            return begun
        }

        mutating func store(_ reading: Reading?, _ name: String, from begin: Int) {
            guard begin > last[name, default: 0] else { return }
            last[name] = begin
            if reading?.isForNow == true {
                postponed.insert(name)
                // It says nothing about the item.
                if case .item = items[name] { return }
            } else if postponed.remove(name) != nil {
                recoveries += 1
            }
            items[name] = reading
        }

        mutating func store(_ list: ReadList, from begin: Int) {
            for name in Set(items.keys).union(list.items.keys) { store(list.items[name], name, from: begin) }
            hasUnnamed = list.hasUnnamed
            guard let allPostponed, begin > allPostponed else { return }
            self.allPostponed = nil
            recoveries += 1
        }

        mutating func postponeAll() { allPostponed = begun }

        var areAllPostponed: Bool { allPostponed != nil }

        func reading(_ name: String, _ lockbox: Lockbox) -> Reading? {
            items[name] ?? (hasUnnamed ? Reading(name, lockbox) : nil)
        }
    }

    /// All items, as they were read at one time.
    struct ReadList: Sendable {
        private(set) var items: [String: Reading] = [:]
        private(set) var hasUnnamed = false

        /// Reads from the store.
        ///
        /// - Throws: If the items cannot be listed at all.
        init(_ lockbox: Lockbox) throws {
            let list = try lockbox.list()
            for item in list.unreadable {
                if let key = item.key {
                    items[key.key] = .failure(item.error)
                } else {
                    hasUnnamed = true
                }
            }
            for name in list.items.keys { items[name] = Reading(name, lockbox) }
        }
    }

    /// The result of reading one item. Nil, where it is optional: there is no such item.
    enum Reading: Sendable {
        case item(StoredItem)
        case failure(any Error)

        /// Reads from the store. Returns nil if there is no such item.
        init?(_ name: String, _ lockbox: Lockbox) {
            do {
                let item = try lockbox.backend.item(
                    for: ItemKey(prefix: lockbox.keyPrefix, key: name),
                    now: lockbox.now()
                )
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
                try unarchive(type, value, key: name)
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

    /// The contents of the memory at one time.
    struct Snapshot: ConfigSnapshot {
        let providerName: String
        let lockbox: Lockbox
        let contents: Contents
        let date: Date

        func value(forKey key: AbsoluteConfigKey, type: ConfigType) throws -> LookupResult {
            let name = key.components.joined(separator: ".")
            _ = try ItemKey(prefix: lockbox.keyPrefix, key: name)
            return try contents.reading(name, lockbox).result(name, type, lockbox, at: date)
        }
    }

    extension Snapshot: CustomStringConvertible, CustomReflectable {
        var description: String { "Snapshot(\(providerName))" }
        var customMirror: Mirror { Mirror(self, children: []) }
    }
#endif
