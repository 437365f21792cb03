/// A backend that can tell which accessibility classes are open.
///
/// A migration checks this before it writes anything. With any other backend, a locked class is noticed only
/// when an item is written.
public protocol LockableBackend: LockboxBackend {
    /// The classes that are open now.
    ///
    /// - Throws: ``LockboxError`` if the state cannot be read.
    var lockState: LockState { get throws }
}
