/// A backend that reports which accessibility classes are open.
///
/// A migration checks this before it writes anything. With any other backend, it finds out that a class is locked
/// only when it writes an item.
public protocol LockableBackend: LockboxBackend {
    /// The classes that are open now.
    ///
    /// - Throws: ``LockboxError/notSupported(operation:)`` if this backend cannot tell, as one that passes calls on to another may;
    ///   another ``LockboxError`` if the state cannot be read.
    var lockState: LockState { get throws }
}

extension LockboxBackend {
    /// The classes that are open now, or nil if the backend cannot tell.
    package func knownLockState() throws -> LockState? {
        do { return try (self as? any LockableBackend)?.lockState } catch let error as LockboxError
            where error.code == .notSupported
        {
            return nil
        }
    }
}
