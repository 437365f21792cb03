/// The result of a call that processes many items.
public protocol StoreReport: Sendable {
    /// The items and files that could not be processed, and why.
    var findings: [StoreFinding] { get }

    /// Whether everything that was requested has been done. An item that was kept or excluded because the caller wanted it so
    /// changes nothing.
    var isComplete: Bool { get }
}

extension StoreReport {
    /// Whether there are no findings.
    public var isComplete: Bool { findings.isEmpty }
}
