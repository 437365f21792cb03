/// A backend that can check its own contents.
public protocol VerifiableBackend: LockboxBackend {
    /// Checks everything that is stored. Changes nothing.
    ///
    /// - Parameter progress: Called after each record.
    /// - Returns: The number of intact items, and all problems found.
    /// - Throws: ``LockboxError/notSupported(operation:)`` if this backend cannot check itself, as one that passes calls on to
    ///   another may; another ``LockboxError`` if the store cannot be read at all. Problems with its contents are in the report.
    func verify(progress: (StoreProgress) -> Void) throws -> VerifyReport
}
