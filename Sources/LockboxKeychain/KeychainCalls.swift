import LockboxPlatform

/// The four calls of Apple's Keychain that this product uses, as functions of Swift values.
///
/// ``SystemKeychain`` makes them. `KeychainSimulator`, in `LockboxTesting`, answers them on every system. Names and
/// codes are in ``KeychainName`` and ``KeychainStatus``.
public protocol KeychainCalls: Sendable {
    /// A query or an item's attributes, by the names in ``KeychainName``.
    typealias Attributes = [String: KeychainValue]

    /// `SecItemAdd`. Asks for no result.
    ///
    /// - Parameter attributes: The item's class, attributes and value.
    /// - Returns: A result code.
    func add(_ attributes: Attributes) -> Int32

    /// `SecItemCopyMatching`.
    ///
    /// - Parameter query: What to look for, and what to return of it.
    /// - Returns: A result code, and the items in no particular order. If the query asks for one part only, each has
    ///   only that part, under the name ``KeychainName/valueData`` or ``KeychainName/valuePersistentRef``. If it asks
    ///   for nothing, there are none.
    func copyMatching(_ query: Attributes) -> (status: Int32, items: [Attributes])

    /// `SecItemUpdate`: changes all items that match, or none.
    ///
    /// - Parameters:
    ///   - query: What to look for.
    ///   - attributes: What to change.
    /// - Returns: A result code.
    func update(_ query: Attributes, _ attributes: Attributes) -> Int32

    /// `SecItemDelete`: removes all items that match.
    ///
    /// - Parameter query: What to look for.
    /// - Returns: A result code.
    func delete(_ query: Attributes) -> Int32
}
