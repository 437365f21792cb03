import LockboxCore
public import LockboxSealed

/// A requirement of the `RecordStorage` contract, which a storage can be checked against.
///
/// With Swift Testing:
///
/// ```swift
/// @Test(arguments: StorageConformance.all)
/// func conforms(_ requirement: StorageConformance) throws {
///     try requirement.check { [try MyStorage(), try MyStorage()] }
/// }
/// ```
///
/// With any other test library, call `try StorageConformance.checkAll { … }` in one test.
public struct StorageConformance: Sendable, CustomStringConvertible {
    /// The requirement in a few words.
    public let description: String

    private let requirement: @Sendable (_ storage: StorageSubject) throws -> Void

    init(_ description: String, _ requirement: @escaping @Sendable (_ storage: StorageSubject) throws -> Void)
    {
        self.description = description
        self.requirement = requirement
    }

    /// Checks one storage against this requirement.
    ///
    /// - Parameters:
    ///   - limit: The time limit. A check that exceeds it fails, and its thread is abandoned.
    ///   - open: Returns an empty storage, or several instances that share the same records, as in different
    ///     processes. The checks use them in turn.
    /// - Throws: ``ConformanceFailure``, or an unexpected error of the storage.
    public func check(within limit: Duration = .seconds(120), _ open: () throws -> [any RecordStorage]) throws
    {
        let subject = StorageSubject(storages: try open(), requirement: description)
        try LockboxTesting.check(description, within: limit) { [requirement] in try requirement(subject) }
    }

    /// Checks every requirement, each with new storages.
    ///
    /// - Parameters:
    ///   - limit: The time limit for each check.
    ///   - open: Returns storages as in ``check(within:_:)``. Called for each requirement.
    /// - Throws: ``ConformanceFailure`` for the first requirement that is not met, or an unexpected error of
    ///   the storage.
    public static func checkAll(
        within limit: Duration = .seconds(120),
        _ open: () throws -> [any RecordStorage]
    ) throws {
        for requirement in all { try requirement.check(within: limit, open) }
    }
}
