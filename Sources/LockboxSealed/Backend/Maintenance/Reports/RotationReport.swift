public import LockboxCore

/// The result of a call that replaces the store's keys: ``SealedBackend``'s `rotateKeys`, and every change of a passcode
/// or another slot.
public struct RotationReport: StoreReport, Hashable {
    /// Why items were left for later. Whoever has the old keys can open them until the next `rotateKeys(newDeviceKey:)`.
    #if hasAttribute(nonexhaustive)
        @nonexhaustive
    #endif
    public enum Postponement: String, Sendable, Hashable, Codable, CaseIterable {
        /// The caller asked for it.
        case requested
        /// Other processes began one rotation after the other meanwhile.
        case overtaken
        /// An error ended the call after the new keys had taken effect.
        case failed
    }

    /// The number of items sealed with the new keys.
    public var resealedCount: Int

    /// The items that could not be read, and the prefixes whose folders could not be listed.
    public var unreadableItems: [UnreadableItem]

    /// The number of items that may still be sealed with the old keys, not counting postponed ones: those that cannot be read
    /// for now, or whose value is damaged. A folder that could not be listed counts as one. The old keys are kept, and open
    /// these items alone.
    public var unrevokedCount: Int

    /// Why items were left for later, or `nil` if none were.
    public var postponement: Postponement?

    /// Whether the store has a new device key. False if the key is kept elsewhere and no new one was given. Then whoever has
    /// the old key can still read names, attributes and the `always` classes.
    public var hasNewDeviceKey: Bool

    /// Creates a report.
    ///
    /// - Parameters:
    ///   - resealedCount: The number of items sealed with the new keys.
    ///   - unreadableItems: The items that could not be read.
    ///   - unrevokedCount: The number of items that may still be sealed with the old keys.
    ///   - postponement: Why items were left for later.
    ///   - hasNewDeviceKey: Whether the store has a new device key.
    public init(
        resealedCount: Int = 0,
        unreadableItems: [UnreadableItem] = [],
        unrevokedCount: Int = 0,
        postponement: Postponement? = nil,
        hasNewDeviceKey: Bool = false
    ) {
        self.resealedCount = resealedCount
        self.unreadableItems = unreadableItems
        self.unrevokedCount = unrevokedCount
        self.postponement = postponement
        self.hasNewDeviceKey = hasNewDeviceKey
    }

    /// Whether items were left for later, for whatever reason.
    public var isPostponed: Bool { postponement != nil }

    /// The items that could not be read.
    public var findings: [StoreFinding] { unreadableItems.map(\.finding) }

    /// Whether every item is sealed with the new keys, or was left for later because the caller asked for it.
    public var isComplete: Bool {
        unreadableItems.isEmpty && (postponement == nil || postponement == .requested)
    }
}
