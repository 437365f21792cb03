public import LockboxPlatform

/// What a write does to an item's expiry date.
///
/// An expiry belongs to the value: a new value has a new expiry, and a change of anything else keeps it.
public enum Expiry: Sendable, Hashable {
    /// A value that is stored with ``WritePolicy/replace`` or ``WritePolicy/addOnly`` never expires. With
    /// ``WritePolicy/updateOnly``, and if no value is stored, the expiry stays as it is. The default.
    case automatic

    /// The expiry stays as it is. A new item never expires.
    case unchanged

    /// The item never expires.
    case never

    /// The item expires at that instant.
    case at(Date)

    /// The item expires that many seconds after the write.
    case after(TimeInterval)

    /// Returns the date for an item, or nil if it never expires.
    func date(_ old: Date?, isNewValue: Bool, now: Date) -> Date? {
        switch self {
        case .automatic: isNewValue ? nil : old
        case .unchanged: old
        case .never: nil
        case .at(let date): date
        case .after(let seconds): now + seconds
        }
    }
}
