import LockboxCore
public import LockboxSealed

/// One requirement of the `RecordStorage` contract, as a check that a storage passes or not.
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
/// With any other test library, `try StorageConformance.checkAll { … }` in one test.
public struct StorageConformance: Sendable, CustomStringConvertible {
    /// What is required, in a few words.
    public let description: String

    private let requirement: @Sendable (_ storage: StorageSubject) throws -> Void

    init(_ description: String, _ requirement: @escaping @Sendable (_ storage: StorageSubject) throws -> Void)
    {
        self.description = description
        self.requirement = requirement
    }

    /// Checks one storage.
    ///
    /// - Parameters:
    ///   - limit: How long the check may take. If it is not done then, it fails, and its thread is left behind.
    ///   - open: Gives a storage without any records; or several on the same records, as different processes have them. The
    ///     checks use them in turn.
    /// - Throws: ``ConformanceFailure``, or what the storage throws where it must not.
    public func check(within limit: Duration = .seconds(120), _ open: () throws -> [any RecordStorage]) throws
    {
        let subject = StorageSubject(storages: try open(), requirement: description)
        try LockboxTesting.check(description, within: limit) { [requirement] in try requirement(subject) }
    }

    /// Checks every requirement, each on storages of its own.
    ///
    /// - Parameters:
    ///   - limit: How long each check may take.
    ///   - open: As in ``check(within:_:)``. Called for each requirement.
    /// - Throws: ``ConformanceFailure`` of the first requirement that is not met, or what the storage throws where it must
    ///   not.
    public static func checkAll(
        within limit: Duration = .seconds(120),
        _ open: () throws -> [any RecordStorage]
    ) throws {
        for requirement in all { try requirement.check(within: limit, open) }
    }
}
