/// Something in a store that is not as it should be.
public struct StoreFinding: Sendable, Hashable, Codable {
    /// What kind of thing a finding is about.
    public enum Kind: String, Sendable, Hashable, Codable, CaseIterable {
        /// An item, the keybag or the device key that cannot be read.
        case damaged
        /// Something that is not the store's, or is another store's.
        case foreign
        /// What a writer that was killed has left. It goes when the store is next opened.
        case leftOver
        /// What others can use or change, or what is no plain file or folder.
        case unsafePermissions
    }

    /// What kind of thing it is.
    public let kind: Kind

    /// The record, the file, or the key of the item.
    public let location: String

    /// What is wrong with it. Shows no value.
    public let reason: String

    /// A finding.
    ///
    /// - Parameters:
    ///   - kind: What kind of thing it is.
    ///   - location: The record, the file, or the key of the item.
    ///   - reason: What is wrong with it. Must not show a value.
    public init(kind: Kind, location: String, reason: String) {
        self.kind = kind
        self.location = location
        self.reason = reason
    }
}

extension StoreFinding {
    /// What an error says of a record.
    package init(_ error: LockboxError, _ location: String) {
        switch error {
        case .unsafePermissions(let path, let reason):
            self.init(kind: .unsafePermissions, location: path, reason: reason)
        case .deviceKeyMismatch(let path):
            self.init(kind: .foreign, location: path, reason: error.description)
        default: self.init(kind: .damaged, location: location, reason: error.description)
        }
    }
}
