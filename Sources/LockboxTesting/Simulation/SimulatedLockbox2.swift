import Lockbox
import LockboxCore
import LockboxPlatform

/// Lockbox 2's methods, called without their warnings.
private protocol Lockbox2 {
    func setString(_ value: String?, forKey key: String, accessibility: Accessibility?) -> Bool
    func string(forKey key: String) -> String?
    func setArray(_ value: [String]?, forKey key: String, accessibility: Accessibility?) -> Bool
    func setSet(_ value: Set<String>?, forKey key: String, accessibility: Accessibility?) -> Bool
}

extension Lockbox: Lockbox2 {}

/// An item as an app for Lockbox 2 uses it. Its methods do not say why they fail.
struct SimulatedLockbox2 {
    private let lockbox: any Lockbox2
    private let key: String

    init(_ lockbox: Lockbox, _ key: String) { (self.lockbox, self.key) = (lockbox, key) }

    func read() -> String? { lockbox.string(forKey: key) }

    /// Stores a text in one of the forms that are the same for it. Returns whether it succeeded.
    func write(_ value: String?, _ class: Accessibility?) -> Bool {
        switch world.randomNumber % 3 {
        case 0: lockbox.setString(value, forKey: key, accessibility: `class`)
        case 1: lockbox.setArray(value.map { [$0] }, forKey: key, accessibility: `class`)
        default: lockbox.setSet(value.map { [$0] }, forKey: key, accessibility: `class`)
        }
    }
}
