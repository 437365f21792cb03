import LockboxCore
import Testing

// The tests of all targets have a link to this file.

/// The error that `body` throws, if it is one of ours.
func lockboxError<Result>(_ body: () throws -> Result) -> LockboxError? {
    do { _ = try body() } catch { return error as? LockboxError }
    return nil
}

/// Expects a `LockboxError` of this kind, where the payload does not matter; else
/// `#expect(throws: LockboxError.itemNotFound(key: "k")) { … }`.
///
/// - Parameter text: The text that its description has to contain.
func expectError<Result>(
    _ code: LockboxError.Code,
    _ comment: Comment? = nil,
    saying text: String? = nil,
    sourceLocation: SourceLocation = #_sourceLocation,
    from body: () throws -> Result
) {
    let error = #expect(throws: LockboxError.self, comment, sourceLocation: sourceLocation) { try body() }
    guard let error else { return }
    #expect(error.code == code, comment, sourceLocation: sourceLocation)
    if let text { #expect(error.description.contains(text), comment, sourceLocation: sourceLocation) }
}
