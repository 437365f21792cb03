#if SecretService
    /// How the attributes of the Secret Service become searchable attributes of Lockbox, under the same names.
    ///
    /// Empty names, and those that begin with `lockbox.`, which are Lockbox's own, get a prefix.
    enum AttributeNames {
        private static let own = "lockbox."
        private static let escaped = "lockbox.escaped."
        /// The type of an item's value, unless it is ``defaultContentType``.
        private static let contentType = "lockbox.content-type"
        static let defaultContentType = "text/plain"

        /// Returns attributes that have a schema. What has none gets the generic one from gnome-keyring, but only when that is started
        /// next, so it has it here from the beginning.
        static func withSchema(_ attributes: [String: String]) -> [String: String] {
            ["xdg:schema": "org.freedesktop.Secret.Generic"].merging(attributes) { $1 }
        }

        static func encode(_ attributes: [String: String]) -> [String: String] {
            Dictionary(
                attributes.map { name, text in
                    let isPlain = !name.isEmpty && !name.utf8.starts(with: own.utf8)
                    return (isPlain ? name : escaped + name, text)
                }
            ) { $1 }
        }

        static func encode(_ attributes: [String: String], contentType: String) -> [String: String] {
            var searchable = encode(attributes)
            searchable[Self.contentType] = contentType == defaultContentType ? nil : contentType
            return searchable
        }

        static func decode(_ searchable: [String: String]) -> [String: String] {
            var attributes: [String: String] = [:]
            for (name, text) in searchable {
                if name.utf8.starts(with: escaped.utf8) {
                    attributes[String(decoding: name.utf8.dropFirst(escaped.utf8.count), as: UTF8.self)] =
                        text
                } else if !name.utf8.starts(with: own.utf8) {
                    attributes[name] = text
                }
            }
            return attributes
        }

        static func contentType(of searchable: [String: String]) -> String {
            searchable[contentType] ?? defaultContentType
        }
    }
#endif
