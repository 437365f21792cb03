public import LockboxCore
import LockboxPlatform

extension Migration {
    /// An item to migrate: its old key and encoding, and optionally a new key and a new accessibility class.
    ///
    /// The bytes that Lockbox 2 and other Keychain wrappers store do not say how they are encoded. The encoding
    /// is chosen by the method that creates the item, as it was by the old getter. Each method names the type
    /// of the new item's value, which `unarchiveObject` then reads.
    public struct Item: Sendable {
        /// The key in the source.
        public let key: String

        /// The item's new key.
        public let newKey: String

        /// The item's new accessibility class. If `nil`, the old one is kept; an item without a class gets
        /// `whenUnlocked`.
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

        /// A string, as stored by `setString` of Lockbox 2 and by most Keychain wrappers. Becomes a `String`.
        ///
        /// - Parameters:
        ///   - key: The key in the source.
        ///   - newKey: The new key. By default, the same.
        ///   - accessibility: The new accessibility class. By default, the old one, or `whenUnlocked` if there
        ///     is none.
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
        ///   - newKey: The new key. By default, the same.
        ///   - accessibility: The new accessibility class. By default, the old one, or `whenUnlocked` if there
        ///     is none.
        public static func data(
            _ key: String,
            to newKey: String? = nil,
            accessibility: Accessibility? = nil
        ) -> Item {
            Item(key, newKey, accessibility) { try $0.decode { $0 } }
        }

        /// An array, as stored by `setArray` of Lockbox 2. Becomes a `[String]`.
        ///
        /// - Parameters:
        ///   - key: The key in the source.
        ///   - newKey: The new key. By default, the same.
        ///   - accessibility: The new accessibility class. By default, the old one, or `whenUnlocked` if there
        ///     is none.
        public static func array(
            _ key: String,
            to newKey: String? = nil,
            accessibility: Accessibility? = nil
        ) -> Item {
            Item(key, newKey, accessibility) { try $0.decodeCollection(Lockbox2Text.array) }
        }

        /// A set, as stored by `setSet` of Lockbox 2. Becomes a `Set<String>`.
        ///
        /// - Parameters:
        ///   - key: The key in the source.
        ///   - newKey: The new key. By default, the same.
        ///   - accessibility: The new accessibility class. By default, the old one, or `whenUnlocked` if there
        ///     is none.
        public static func set(
            _ key: String,
            to newKey: String? = nil,
            accessibility: Accessibility? = nil
        ) -> Item {
            Item(key, newKey, accessibility) { try $0.decodeCollection(Lockbox2Text.set) }
        }

        /// A dictionary, as stored by `setDictionary` of Lockbox 2. Becomes a `[String: String]`.
        ///
        /// - Parameters:
        ///   - key: The key in the source.
        ///   - newKey: The new key. By default, the same.
        ///   - accessibility: The new accessibility class. By default, the old one, or `whenUnlocked` if there
        ///     is none.
        public static func dictionary(
            _ key: String,
            to newKey: String? = nil,
            accessibility: Accessibility? = nil
        ) -> Item {
            Item(key, newKey, accessibility) { try $0.decodeCollection(Lockbox2Text.dictionary) }
        }

        /// A date, as stored by `setDate` of Lockbox 2. Becomes a `Date`.
        ///
        /// - Parameters:
        ///   - key: The key in the source.
        ///   - newKey: The new key. By default, the same.
        ///   - accessibility: The new accessibility class. By default, the old one, or `whenUnlocked` if there
        ///     is none.
        public static func date(
            _ key: String,
            to newKey: String? = nil,
            accessibility: Accessibility? = nil
        ) -> Item {
            Item(key, newKey, accessibility) {
                try $0.decode { try Lockbox2Text.date(Lockbox2Text.string($0)) }
            }
        }

        /// An `NSKeyedArchiver` archive, as stored by `archiveObject` of Lockbox 3, binary or in XML. Becomes a
        /// `type`.
        ///
        /// Reads strings, numbers (a decimal number as a `Decimal`), booleans, dates, data, URLs, UUIDs, null,
        /// and arrays, sets, ordered sets and dictionaries of them. No class of the archive is instantiated.
        /// The item is refused if `type` does not decode all of the data. An archive of nil counts as absent:
        /// Lockbox 3 left one where an item was removed with nil.
        ///
        /// - Parameters:
        ///   - key: The key in the source.
        ///   - type: The type to decode.
        ///   - topKey: The key inside the archive. By default `key`, as in Lockbox 3.
        ///     `NSKeyedArchiver.archivedData(withRootObject:requiringSecureCoding:)` uses `root`. Objects
        ///     encoded without keys have the keys `$0`, `$1` and so on; if there is only one, it is read
        ///     whatever `topKey` is.
        ///   - newKey: The new key. By default, the same.
        ///   - accessibility: The new accessibility class. By default, the old one, or `whenUnlocked` if there
        ///     is none.
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

        /// A value stored by Strongbox: the JSON of a Codable type inside a keyed archive. Becomes a `type`,
        /// decoded like ``json(_:as:to:accessibility:)``.
        ///
        /// - Parameters:
        ///   - key: The key in the source.
        ///   - type: The type to decode.
        ///   - newKey: The new key. By default, the same.
        ///   - accessibility: The new accessibility class. By default, the old one, or `whenUnlocked` if there
        ///     is none.
        public static func strongbox<Value: Codable & Sendable>(
            _ key: String,
            as type: Value.Type,
            to newKey: String? = nil,
            accessibility: Accessibility? = nil
        ) -> Item {
            Item(key, newKey, accessibility) { try KeyedArchive($0.bytes()).json(type, forKey: key) }
        }

        /// JSON, as encoded by `JSONEncoder`. Becomes a `type`.
        ///
        /// Decoded by `JSONDecoder`: it ignores members that the type does not have, picks one of several
        /// members with the same name, and rounds numbers to the precision of the type.
        ///
        /// - Parameters:
        ///   - key: The key in the source.
        ///   - type: The type to decode.
        ///   - newKey: The new key. By default, the same.
        ///   - accessibility: The new accessibility class. By default, the old one, or `whenUnlocked` if there
        ///     is none.
        public static func json<Value: Codable & Sendable>(
            _ key: String,
            as type: Value.Type,
            to newKey: String? = nil,
            accessibility: Accessibility? = nil
        ) -> Item {
            Item(key, newKey, accessibility) { try JSONDecoder().decode(type, from: Data($0.bytes())) }
        }

        /// A value whose source records its type, as property lists, JSON files and `UserDefaults` do. Becomes
        /// a `type`, without loss: the item is refused if `type` does not decode all of the data.
        ///
        /// - Parameters:
        ///   - key: The key in the source.
        ///   - type: The type to decode.
        ///   - newKey: The new key. By default, the same.
        ///   - accessibility: The new accessibility class. By default, the old one, or `whenUnlocked` if there
        ///     is none.
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
