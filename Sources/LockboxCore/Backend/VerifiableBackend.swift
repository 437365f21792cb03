/// A backend that can state what is wrong with what it stores.
public protocol VerifiableBackend: LockboxBackend {
    /// Looks at everything that is stored, and changes nothing.
    ///
    /// - Parameter progress: Is called after each record.
    /// - Returns: How many items are whole, and whatever is not as it should be.
    /// - Throws: ``LockboxError`` if the store cannot be read at all. What is wrong with its contents is in the report.
    func verify(progress: (StoreProgress) -> Void) throws -> VerifyReport
}
