import LockboxCore

/// What ``SealedBackend/verify(progress:)`` found.
public struct VerifyReport: Sendable {
    /// How many items are whole.
    public internal(set) var intact = 0

    /// How many of those are locked, so that only their names and attributes were looked at.
    public internal(set) var locked = 0

    /// Everything else.
    public internal(set) var findings: [Finding] = []

    /// Something in the store that is not as it should be.
    public struct Finding: Sendable {
        /// What kind of thing it is.
        public let kind: Kind

        /// The record or the file.
        public let location: String

        /// What is wrong with it.
        public let reason: String
    }

    /// The kinds of findings.
    public enum Kind: Sendable, Hashable, CaseIterable {
        /// An item, the keybag or the device key that cannot be read.
        case damaged
        /// Something that is not the store's, or is another store's.
        case foreign
        /// What a writer that was killed has left. It goes when the store is next opened.
        case leftOver
        /// What others can use or change, or what is no plain file or folder.
        case unsafePermissions
    }
}
