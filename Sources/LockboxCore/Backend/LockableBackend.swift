/// A backend that can say which of its classes are open.
///
/// Who plans many writes, as a migration does, asks before the first of them. Of any other backend it is known when an
/// item is written.
public protocol LockableBackend: LockboxBackend {
    /// Which classes are open now.
    ///
    /// - Throws: ``LockboxError`` if that cannot be found out.
    var lockState: LockState { get throws }
}
