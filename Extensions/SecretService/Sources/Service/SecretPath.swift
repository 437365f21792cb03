#if SecretService
    @_spi(Extensions) import LockboxCore
    import LockboxPlatform

    /// The paths of the objects, and the prefixes of the items behind them.
    enum SecretPath {
        static let root = "/org/freedesktop/secrets"

        /// The default collection's items.
        static let items = "org.freedesktop.secrets"
        /// Items that have the labels of collections, by their names.
        static let records = "org.freedesktop.secrets/collections"

        /// The items of a collection that a program has created.
        static func items(of collection: String) -> String {
            "org.freedesktop.secrets/collection/\(collection)"
        }

        /// Returns the last part of an item's path: that of a key made here is the key. Others may have any characters.
        static func element(of key: String) -> String {
            isElement(key) ? key : "_\(key.utf8.hexadecimal)"
        }

        /// Returns the key of an item, or nil if the element is that of none.
        static func key(of element: Substring) -> String? {
            if isElement(String(element)) { return String(element) }
            guard element.hasPrefix("_"), element.count > 1,
                let bytes = Data(hexadecimal: String(element.dropFirst()))
            else {
                return nil
            }
            let key = String(validating: bytes, as: UTF8.self)
            return key.flatMap { self.element(of: $0) == element ? $0 : nil }
        }

        static var newElement: String { SessionCipher.random(16).hexadecimal }

        static func isElement(_ text: String) -> Bool { text.wholeMatch(of: /[0-9a-f]{32}/) != nil }
    }

    /// What a path leads to.
    enum SecretObject {
        case service
        case collection(Collection)
        case item(Item)
        case session(String)

        var interface: String {
            switch self {
            case .service: "org.freedesktop.Secret.Service"
            case .collection: "org.freedesktop.Secret.Collection"
            case .item: "org.freedesktop.Secret.Item"
            case .session: "org.freedesktop.Secret.Session"
            }
        }
    }
#endif
