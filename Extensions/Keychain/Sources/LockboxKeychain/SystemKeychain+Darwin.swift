#if canImport(Darwin)
    import LockboxPlatform
    import Security

    /// Apple's Keychain. Only converts values and makes the calls.
    ///
    /// > Important: This type has been parsed for macOS and iOS. It has not been compiled or run there.
    public struct SystemKeychain: KeychainCalls {
        /// Does nothing yet. The first call may fail.
        public init() {}

        /// Calls `SecItemAdd`.
        public func add(_ attributes: Attributes) -> Int32 {
            guard let attributes = attributes.dictionary else { return KeychainStatus.parameter }
            return SecItemAdd(attributes, nil)
        }

        /// Calls `SecItemCopyMatching`.
        public func copyMatching(_ query: Attributes) -> (status: Int32, items: [Attributes]) {
            guard let dictionary = query.dictionary else { return (KeychainStatus.parameter, []) }
            var result = nil as CFTypeRef?
            let status = SecItemCopyMatching(dictionary, &result)
            guard status == errSecSuccess, let result else { return (status, []) }
            // One part alone comes without its name.
            let name =
                query[KeychainName.returnData] == .bool(true)
                ? KeychainName.valueData : KeychainName.valuePersistentRef
            let objects = (result as? [Any]) ?? [result]
            return (status, objects.map { Attributes(object: $0, name: name) })
        }

        /// Calls `SecItemUpdate`.
        public func update(_ query: Attributes, _ attributes: Attributes) -> Int32 {
            guard let query = query.dictionary, let attributes = attributes.dictionary else {
                return KeychainStatus.parameter
            }
            return SecItemUpdate(query, attributes)
        }

        /// Calls `SecItemDelete`.
        public func delete(_ query: Attributes) -> Int32 {
            guard let query = query.dictionary else { return KeychainStatus.parameter }
            return SecItemDelete(query)
        }
    }

    extension [String: KeychainValue] {
        /// The dictionary, or nil if it has an access control whose flags do not go together.
        fileprivate var dictionary: CFDictionary? {
            let objects = compactMapValues(\.object)
            return objects.count == count ? objects as CFDictionary : nil
        }

        /// Leaves out what is none of the first five kinds, such as an access control, which shows nothing of itself.
        fileprivate init(object: Any, name: String) {
            let attributes = object as? [String: Any] ?? [name: object]
            self = attributes.compactMapValues(KeychainValue.init(object:))
        }
    }

    extension KeychainValue {
        fileprivate init?(object: Any) {
            switch object {
            case let text as String: self = .text(text)
            case let data as Data: self = .data(data)
            case let date as Date: self = .date(date)
            case let number as NSNumber:
                let isBoolean = CFGetTypeID(number) == CFBooleanGetTypeID()
                self = isBoolean ? .bool(number.boolValue) : .int(number.int64Value)
            default: return nil
            }
        }

        fileprivate var object: Any? {
            switch self {
            case .text(let text): text as NSString
            case .data(let data): data as NSData
            case .int(let int): int as NSNumber
            case .bool(let bool): bool as NSNumber
            case .date(let date): date as NSDate
            case .accessControl(let protection, let flags):
                SecAccessControlCreateWithFlags(
                    nil,
                    protection as CFString,
                    SecAccessControlCreateFlags(rawValue: CFOptionFlags(flags.rawValue)),
                    nil
                )
            }
        }
    }
#endif
