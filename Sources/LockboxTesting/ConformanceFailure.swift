/// A requirement that a backend or a storage does not meet.
public struct ConformanceFailure: Error, Hashable, CustomStringConvertible {
    /// The requirement in a few words.
    public let requirement: String

    /// The observed behavior.
    public let finding: String

    /// The requirement and the observed behavior.
    public var description: String { "Requirement not met: \(requirement): \(finding)" }
}
