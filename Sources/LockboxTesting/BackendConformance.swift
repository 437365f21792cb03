import LockboxCore

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

    /// Checks one backend.
    ///
    /// - Parameter makeBackend: Gives a backend without any items.
    /// - Throws: ``ConformanceFailure``, or what the backend throws where it must not.
    public func check(_ makeBackend: () throws -> any LockboxBackend) throws {
        try requirement(Subject(backend: makeBackend(), requirement: description))
    }

    /// Checks every requirement, each on a backend of its own.
    ///
    /// - Parameter makeBackend: Gives a backend without any items, each time it is called.
    /// - Throws: ``ConformanceFailure`` of the first requirement that is not met, or what the backend throws where it must
    ///   not.
    public static func checkAll(_ makeBackend: () throws -> any LockboxBackend) throws {
        for requirement in all { try requirement.check(makeBackend) }
    }
}

/// A requirement that a backend does not meet.
public struct ConformanceFailure: Error, CustomStringConvertible {
    /// The ``BackendConformance/description`` of the requirement.
    public let requirement: String

    /// What was found instead.
    public let finding: String

    /// Both, in a sentence.
    public var description: String { "The backend does not conform: \(requirement): \(finding)" }
}
