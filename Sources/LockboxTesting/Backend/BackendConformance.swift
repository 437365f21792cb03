public import LockboxCore

/// One requirement of the `LockboxBackend` contract, as a check that a backend passes or not.
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
/// With any other test library, `try BackendConformance.checkAll { MyBackend() }` in one test.
///
/// The checks give every date themselves. One waits three times for a tenth of a second, in which nothing may happen.
public struct BackendConformance: Sendable, CustomStringConvertible {
    /// What is required, in a few words.
    public let description: String

    private let requirement: @Sendable (_ backend: Subject) throws -> Void

    init(_ description: String, _ requirement: @escaping @Sendable (_ backend: Subject) throws -> Void) {
        self.description = description
        self.requirement = requirement
    }

    /// Checks one backend. What concerns a capability, as ``LockableBackend``, is passed by a backend that does not have it.
    ///
    /// - Parameters:
    ///   - limit: How long the check may take. If it is not done then, it fails, and its thread is left behind.
    ///   - makeBackend: Gives a backend without any items.
    /// - Throws: ``ConformanceFailure``, or what the backend throws where it must not.
    public func check(within limit: Duration = .seconds(120), _ makeBackend: () throws -> any LockboxBackend)
        throws
    {
        let subject = Subject(backend: try makeBackend(), requirement: description)
        try LockboxTesting.check(description, within: limit) { [requirement] in try requirement(subject) }
    }

    /// Checks every requirement, each on a backend of its own.
    ///
    /// - Parameters:
    ///   - limit: How long each check may take.
    ///   - makeBackend: Gives a backend without any items, each time it is called.
    /// - Throws: ``ConformanceFailure`` of the first requirement that is not met, or what the backend throws where it must
    ///   not.
    public static func checkAll(
        within limit: Duration = .seconds(120),
        _ makeBackend: () throws -> any LockboxBackend
    ) throws {
        for requirement in all { try requirement.check(within: limit, makeBackend) }
    }
}
