import LockboxCore

/// Hides its contents from every way of printing it.
package protocol Undescribed: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {}

extension Undescribed {
    package var description: String { "\(Self.self)" }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: [:]) }
}
