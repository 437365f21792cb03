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
    /// Opens a storage again: see ``check(within:reopen:_:)``.
    public typealias Reopening = @Sendable (_ storages: [any RecordStorage]) throws -> [any RecordStorage]

    /// The requirement in a few words.
    public let description: String

    private let requirement: @Sendable (_ subject: StorageSubject) throws -> Void

    init(_ description: String, _ requirement: @escaping @Sendable (_ subject: StorageSubject) throws -> Void)
    {
        self.description = description
        self.requirement = requirement
    }

    /// Checks one storage against this requirement. A storage without the capability that a requirement is about, such as
    /// `LockingStorage`, passes.
    ///
    /// - Parameters:
    ///   - limit: The time limit. A check that exceeds it fails, and its thread is abandoned.
    ///   - reopen: Returns new instances on the records of those it is given, as after a restart. If `nil`, for a storage that
    ///     keeps nothing, what is there after a restart is not checked.
    ///   - open: Returns an empty storage, or several instances that share the same records, as in different
    ///     processes. The checks use them in turn.
    /// - Throws: ``ConformanceFailure``, or the error of `open`.
    public func check(
        within limit: Duration = .seconds(120),
        reopen: Reopening? = nil,
        _ open: () throws -> [any RecordStorage]
    ) throws {
        let subject = StorageSubject(
            storages: try open(),
            requirement: description,
            patience: limit / 4,
            reopen: reopen
        )
        try LockboxTesting.check(description, within: limit) { [requirement] in try requirement(subject) }
    }

    /// Checks every requirement, each with new storages.
    ///
    /// - Parameters:
    ///   - limit: The time limit for each check.
    ///   - reopen: Returns new instances on the same records: see ``check(within:reopen:_:)``.
    ///   - open: Returns storages as in ``check(within:reopen:_:)``. Called for each requirement.
    /// - Throws: ``ConformanceFailure`` for the first requirement that is not met, or the error of `open`.
    public static func checkAll(
        within limit: Duration = .seconds(120),
        reopen: Reopening? = nil,
        _ open: () throws -> [any RecordStorage]
    ) throws {
        for requirement in all { try requirement.check(within: limit, reopen: reopen, open) }
    }
}
