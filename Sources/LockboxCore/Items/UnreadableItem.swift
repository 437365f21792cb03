/// An item that was skipped, for example by a list or an export, because it cannot be read.
///
/// It can also stand for all items of a prefix whose folder cannot be used. Its record can then be neither removed nor set
/// aside.
public struct UnreadableItem: Sendable, Hashable {
    /// The item's key, or `nil` if it is not known because the metadata cannot be read either.
    public let key: ItemKey?

    /// Identifies the item's record in its store: see ``RepairableBackend``.
    public let record: String

    /// Where the record is, for example its path.
    public let location: String

    /// Why the item cannot be read.
    public let error: LockboxError

    /// Creates a description of an item that cannot be read.
    ///
    /// - Parameters:
    ///   - key: The item's key, if it is known.
    ///   - record: Identifies the item's record in its store.
    ///   - location: Where the record is, for example its path.
    ///   - error: Why the item cannot be read.
    public init(key: ItemKey?, record: String, location: String, error: LockboxError) {
        self.key = key
        self.record = record
        self.location = location
        self.error = error
    }

    /// Whether the record itself is damaged. Otherwise it may be readable later, for example with other
    /// permissions or by a newer version.
    public var isDamaged: Bool { error.code == .corrupt || error.code == .authenticationFailed }

    package var finding: StoreFinding {
        let finding = StoreFinding(error, location: location)
        guard let key else { return finding }
        let reason = "\(key.location): \(finding.reason)"
        return StoreFinding(kind: finding.kind, location: finding.location, reason: reason)
    }
}
