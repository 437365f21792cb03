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
/// The checks do not depend on the current date. Three of them wait for some tenths of a second to see that nothing happens.
public struct BackendConformance: Sendable, CustomStringConvertible {
    /// Makes a stored item unreadable: see ``check(within:damage:_:)``.
    public typealias Damage = @Sendable (_ backend: any LockboxBackend, _ key: ItemKey) throws -> Void

    /// The requirement in a few words.
    public let description: String

    private let requirement: @Sendable (_ subject: Subject) throws -> Void

    init(_ description: String, _ requirement: @escaping @Sendable (_ subject: Subject) throws -> Void) {
        self.description = description
        self.requirement = requirement
    }

    /// Checks one backend against this requirement. A backend without the capability that a requirement is
    /// about, such as `LockableBackend`, passes.
    ///
    /// - Parameters:
    ///   - limit: The time limit. A check that exceeds it fails, and its thread is abandoned.
    ///   - damage: Makes an item of the backend unreadable, with its attributes, for example by overwriting its bytes. If `nil`,
    ///     what becomes of such items is not checked.
    ///   - makeBackend: Returns an empty backend.
    /// - Throws: ``ConformanceFailure``, or the error of `makeBackend`.
    public func check(
        within limit: Duration = .seconds(120),
        damage: Damage? = nil,
        _ makeBackend: () throws -> any LockboxBackend
    ) throws {
        let subject = Subject(
            backend: try makeBackend(),
            requirement: description,
            patience: limit / 4,
            damage: damage
        )
        try LockboxTesting.check(description, within: limit) { [requirement] in try requirement(subject) }
    }

    /// Checks every requirement, each with a new backend.
    ///
    /// - Parameters:
    ///   - limit: The time limit for each check.
    ///   - damage: Makes an item of the backend unreadable: see ``check(within:damage:_:)``.
    ///   - makeBackend: Returns an empty backend. Called for each requirement.
    /// - Throws: ``ConformanceFailure`` for the first requirement that is not met, or the error of `makeBackend`.
    public static func checkAll(
        within limit: Duration = .seconds(120),
        damage: Damage? = nil,
        _ makeBackend: () throws -> any LockboxBackend
    ) throws {
        for requirement in all { try requirement.check(within: limit, damage: damage, makeBackend) }
    }
}
