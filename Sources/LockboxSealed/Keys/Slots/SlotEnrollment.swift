/// The result of ``UnlockMethod/enroll(salt:)``: the secret of a new slot, and what is stored with the slot.
public struct SlotEnrollment: Sendable {
    /// The maximum length of ``parameters``: 2,048 bytes.
    public static let maximumParametersLength = KeybagSlot.maximumParametersLength

    /// What the method needs to return the secret again. Stored in the keybag, encrypted with the device key.
    public var parameters: [UInt8]

    /// 32 to 64 bytes that cannot be guessed without the method and the salt.
    public var secret: [UInt8]

    /// Creates an enrollment.
    ///
    /// - Parameters:
    ///   - parameters: At most ``maximumParametersLength`` bytes.
    ///   - secret: 32 to 64 bytes. Wiped after use.
    public init(parameters: [UInt8], secret: [UInt8]) {
        self.parameters = parameters
        self.secret = secret
    }
}

extension SlotEnrollment: CustomStringConvertible, CustomReflectable {
    /// A fixed text. Does not show the secret.
    public var description: String { "SlotEnrollment" }

    /// Keeps `dump(_:)` from showing the secret.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
