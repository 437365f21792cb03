public import LockboxCore

/// A requirement of the `LockboxBackend` contract, which a backend can be checked against.
///
/// With Swift Testing:
///
/// ```swift
/// @Test(arguments: BackendConformance.all)
/// func conforms(_ requirement: BackendConformance) throws {
///     try requirement.check { MyBackend() }
/// }
/// ```
///
/// With any other test library, call `try BackendConformance.checkAll { MyBackend() }` in one test.
///
/// The checks do not depend on the current date. One of them waits three times for a tenth of a second to see
/// that nothing happens.
public struct BackendConformance: Sendable, CustomStringConvertible {
    /// The requirement in a few words.
    public let description: String

    private let requirement: @Sendable (_ backend: Subject) throws -> Void

    init(_ description: String, _ requirement: @escaping @Sendable (_ backend: Subject) throws -> Void) {
        self.description = description
        self.requirement = requirement
    }

    /// Checks one backend against this requirement. A backend without the capability that a requirement is
    /// about, such as `LockableBackend`, passes.
    ///
    /// - Parameters:
    ///   - limit: The time limit. A check that exceeds it fails, and its thread is abandoned.
    ///   - makeBackend: Returns an empty backend.
    /// - Throws: ``ConformanceFailure``, or an unexpected error of the backend.
    public func check(within limit: Duration = .seconds(120), _ makeBackend: () throws -> any LockboxBackend)
        throws
    {
        let subject = Subject(backend: try makeBackend(), requirement: description)
        try LockboxTesting.check(description, within: limit) { [requirement] in try requirement(subject) }
    }

    /// Checks every requirement, each with a new backend.
    ///
    /// - Parameters:
    ///   - limit: The time limit for each check.
    ///   - makeBackend: Returns an empty backend. Called for each requirement.
    /// - Throws: ``ConformanceFailure`` for the first requirement that is not met, or an unexpected error of
    ///   the backend.
    public static func checkAll(
        within limit: Duration = .seconds(120),
        _ makeBackend: () throws -> any LockboxBackend
    ) throws {
        for requirement in all { try requirement.check(within: limit, makeBackend) }
    }
}
