public import LockboxCore
import LockboxPlatform

extension Migration {
    /// One item: its old key, what its value is an encoding of, and, if they are to change, its new key and class.
    ///
    /// Bytes that Lockbox 2 or another wrapper of the Keychain wrote do not say what they are an encoding of: the name of the
    /// method says it, as the old getter's did. The new item's value is of the type that is given with each; read it with
    /// `unarchiveObject`.
    public struct Item: Sendable {
        /// The key in the source.
        public let key: String

        /// The key that the item is to have.
        public let newKey: String

        /// The class that the item is to have; nil for the one that it has, or else `whenUnlocked`.
        public let accessibility: Accessibility?

        let typeName: String
        let decode: @Sendable (SourceValue) throws -> any MigratedValue

        private init<Value: Codable & Sendable>(
            _ key: String,
            _ newKey: String?,
            _ accessibility: Accessibility?,
            _ decode: @escaping @Sendable (SourceValue) throws -> Value
        ) {
            self.key = key
            self.newKey = newKey ?? key
            self.accessibility = accessibility
            typeName = "\(Value.self)"
            self.decode = { Migrated(value: try decode($0)) }
        }

        /// A text: `setString` of Lockbox 2, and what most wrappers store. Becomes a `String`.
        ///
        /// - Parameters:
        ///   - key: The key in the source.
        ///   - newKey: The key that the item is to have; by default the same.
        ///   - accessibility: The class that it is to have; by default the one that it has, or else `whenUnlocked`.
        public static func string(
            _ key: String,
            to newKey: String? = nil,
            accessibility: Accessibility? = nil
        ) -> Item {
            Item(key, newKey, accessibility) { try $0.decode(Lockbox2Text.string) }
        }

        /// Bytes. Becomes a `Data`.
        ///
        /// - Parameters:
        ///   - key: The key in the source.
        ///   - newKey: The key that the item is to have; by default the same.
        ///   - accessibility: The class that it is to have; by default the one that it has, or else `whenUnlocked`.
        public static func data(
            _ key: String,
            to newKey: String? = nil,
            accessibility: Accessibility? = nil
        ) -> Item {
            Item(key, newKey, accessibility) { try $0.decode { $0 } }
        }

        /// Lockbox 2's `setArray`. Becomes a `[String]`.
        ///
        /// - Parameters:
        ///   - key: The key in the source.
        ///   - newKey: The key that the item is to have; by default the same.
        ///   - accessibility: The class that it is to have; by default the one that it has, or else `whenUnlocked`.
        public static func array(
            _ key: String,
            to newKey: String? = nil,
            accessibility: Accessibility? = nil
        ) -> Item {
            Item(key, newKey, accessibility) { try $0.decodeCollection(Lockbox2Text.array) }
        }

        /// Lockbox 2's `setSet`. Becomes a `Set<String>`.
        ///
        /// - Parameters:
        ///   - key: The key in the source.
        ///   - newKey: The key that the item is to have; by default the same.
        ///   - accessibility: The class that it is to have; by default the one that it has, or else `whenUnlocked`.
        public static func set(
            _ key: String,
            to newKey: String? = nil,
            accessibility: Accessibility? = nil
        ) -> Item {
            Item(key, newKey, accessibility) { try $0.decodeCollection(Lockbox2Text.set) }
        }

        /// Lockbox 2's `setDictionary`. Becomes a `[String: String]`.
        ///
        /// - Parameters:
        ///   - key: The key in the source.
        ///   - newKey: The key that the item is to have; by default the same.
        ///   - accessibility: The class that it is to have; by default the one that it has, or else `whenUnlocked`.
        public static func dictionary(
            _ key: String,
            to newKey: String? = nil,
            accessibility: Accessibility? = nil
        ) -> Item {
            Item(key, newKey, accessibility) { try $0.decodeCollection(Lockbox2Text.dictionary) }
        }

        /// Lockbox 2's `setDate`. Becomes a `Date`.
        ///
        /// - Parameters:
        ///   - key: The key in the source.
        ///   - newKey: The key that the item is to have; by default the same.
        ///   - accessibility: The class that it is to have; by default the one that it has, or else `whenUnlocked`.
        public static func date(
            _ key: String,
            to newKey: String? = nil,
            accessibility: Accessibility? = nil
        ) -> Item {
            Item(key, newKey, accessibility) {
                try $0.decode { try Lockbox2Text.date(Lockbox2Text.string($0)) }
            }
        }

        /// Lockbox 3's `archiveObject`, and any other archive of `NSKeyedArchiver`. Becomes a `type`.
        ///
        /// Strings, numbers (a decimal number as a `Decimal`), booleans, dates, data, URLs, UUIDs, null, and arrays, sets,
        /// ordered sets and dictionaries of them are read, without any class of the archive being made. A type that has no
        /// place for all that is there is refused. An archive of nil, which Lockbox 3 left where an item was removed with
        /// nil, is absent.
        ///
        /// - Parameters:
        ///   - key: The key in the source.
        ///   - type: What the value is to be read as.
        ///   - topKey: The key inside the archive; by default `key`, as Lockbox 3 has it.
        ///     `NSKeyedArchiver.archivedData(withRootObject:requiringSecureCoding:)` has `root`.
        ///   - newKey: The key that the item is to have; by default the same.
        ///   - accessibility: The class that it is to have.
        public static func archive<Value: Codable & Sendable>(
            _ key: String,
            as type: Value.Type,
            topKey: String? = nil,
            to newKey: String? = nil,
            accessibility: Accessibility? = nil
        ) -> Item {
            Item(key, newKey, accessibility) { value in
                try KeyedArchive(value.bytes()).value(forKey: topKey ?? key).decode(type)
            }
        }

        /// What Strongbox archived: the JSON of any Codable type, inside a keyed archive. Becomes a `type`, as
        /// ``json(_:as:to:accessibility:)`` does.
        ///
        /// - Parameters:
        ///   - key: The key in the source.
        ///   - type: What the value is to be read as.
        ///   - newKey: The key that the item is to have; by default the same.
        ///   - accessibility: The class that it is to have; by default the one that it has, or else `whenUnlocked`.
        public static func strongbox<Value: Codable & Sendable>(
            _ key: String,
            as type: Value.Type,
            to newKey: String? = nil,
            accessibility: Accessibility? = nil
        ) -> Item {
            Item(key, newKey, accessibility) { try KeyedArchive($0.bytes()).json(type, forKey: key) }
        }

        /// The JSON of any Codable type, as `JSONEncoder` makes it. Becomes a `type`, by `JSONDecoder`: members that the
        /// type does not have are dropped, of two of one name one is taken, and numbers are rounded to what the type holds.
        ///
        /// - Parameters:
        ///   - key: The key in the source.
        ///   - type: What the value is to be read as.
        ///   - newKey: The key that the item is to have; by default the same.
        ///   - accessibility: The class that it is to have; by default the one that it has, or else `whenUnlocked`.
        public static func json<Value: Codable & Sendable>(
            _ key: String,
            as type: Value.Type,
            to newKey: String? = nil,
            accessibility: Accessibility? = nil
        ) -> Item {
            Item(key, newKey, accessibility) { try JSONDecoder().decode(type, from: Data($0.bytes())) }
        }

        /// A value that says itself what it is, as in a property list, a JSON file or `UserDefaults`. Becomes a `type`,
        /// exactly: one that has no place for all that is there is refused.
        ///
        /// - Parameters:
        ///   - key: The key in the source.
        ///   - type: What the value is to be read as.
        ///   - newKey: The key that the item is to have; by default the same.
        ///   - accessibility: The class that it is to have; by default the one that it has, or else `whenUnlocked`.
        public static func value<Value: Codable & Sendable>(
            _ key: String,
            as type: Value.Type,
            to newKey: String? = nil,
            accessibility: Accessibility? = nil
        ) -> Item {
            Item(key, newKey, accessibility) { try $0.property().decode(type) }
        }
    }
}
