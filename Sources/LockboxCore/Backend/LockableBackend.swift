/// A backend that reports which accessibility classes are open.
///
/// A migration checks this before it writes anything. With any other backend, it finds out that a class is locked
/// only when it writes an item.
public protocol LockableBackend: LockboxBackend {
    /// The classes that are open now.
    ///
    /// - Throws: ``LockboxError`` if the state cannot be read.
    var lockState: LockState { get throws }
}
