import Lockbox
import Testing

/// The error that `body` throws, if it is one of ours.
func lockboxError<Result>(_ body: () throws -> Result) -> LockboxError? {
    do { _ = try body() } catch { return error as? LockboxError }
    return nil
}

/// Expects a `LockboxError` of this kind, where the payload does not matter; else
/// `#expect(throws: LockboxError.itemNotFound(key: "k")) { … }`.
func expectError<Result>(
    _ code: LockboxError.Code,
    _ comment: Comment? = nil,
    sourceLocation: SourceLocation = #_sourceLocation,
    from body: () throws -> Result
) {
    let error = #expect(throws: LockboxError.self, comment, sourceLocation: sourceLocation) { try body() }
    if let error { #expect(error.code == code, comment, sourceLocation: sourceLocation) }
}
