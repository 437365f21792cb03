import LockboxSodium

/// What becomes of the device key when the keybag is replaced.
enum DeviceKeyChange {
    case keep
    /// A new one, where it is in the store. Elsewhere only its owner can replace it.
    case renew
    case replace(DeviceKeySource)
}
