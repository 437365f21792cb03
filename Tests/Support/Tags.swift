import Testing

/// `Scripts/test` runs the suites of each tag in a process of their own.
extension Tag {
    /// Waits for a second or more, and hardly computes.
    @Tag static var waits: Self
    /// Is about passcodes, so no short hash takes the place of Argon2id.
    @Tag static var argon2id: Self
}
