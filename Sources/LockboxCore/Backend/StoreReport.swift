/// What a call that goes through many items did: how many it dealt with, and what it could not deal with.
public protocol StoreReport: Sendable {
    /// What could not be read, written or removed, and why.
    var findings: [StoreFinding] { get }

    /// Whether everything was done that was asked for.
    var isComplete: Bool { get }
}

extension StoreReport {
    /// Whether there are no findings.
    public var isComplete: Bool { findings.isEmpty }
}
