import LockboxKeychainTesting
import LockboxKeychain
import LockboxTesting

/// A Keychain before whose calls something happens.
struct InterruptedKeychain: KeychainCalls {
    enum Call { case add, copyMatching, update, delete }

    let keychain: KeychainSimulator
    /// Returns the status that the call fails with, or nil if it is to be made.
    let before: @Sendable (Call) -> Int32?

    func add(_ attributes: Attributes) -> Int32 { before(.add) ?? keychain.add(attributes) }

    func copyMatching(_ query: Attributes) -> (status: Int32, items: [Attributes]) {
        before(.copyMatching).map { ($0, []) } ?? keychain.copyMatching(query)
    }

    func update(_ query: Attributes, _ attributes: Attributes) -> Int32 {
        before(.update) ?? keychain.update(query, attributes)
    }

    func delete(_ query: Attributes) -> Int32 { before(.delete) ?? keychain.delete(query) }
}
