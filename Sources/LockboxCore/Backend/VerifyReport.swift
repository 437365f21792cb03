/// What ``VerifiableBackend/verify(progress:)`` found.
public struct VerifyReport: StoreReport, Hashable, Codable {
    /// How many items are whole.
    public var intact: Int

    /// How many of those are locked, so that only their names and attributes were looked at.
    public var locked: Int

    /// Everything else.
    public var findings: [StoreFinding]

    /// A report of a backend.
    ///
    /// - Parameters:
    ///   - intact: How many items are whole.
    ///   - locked: How many of those are locked.
    ///   - findings: Everything else.
    public init(intact: Int = 0, locked: Int = 0, findings: [StoreFinding] = []) {
        self.intact = intact
        self.locked = locked
        self.findings = findings
    }
}
