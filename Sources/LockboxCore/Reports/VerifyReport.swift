/// The result of ``VerifiableBackend/verify(progress:)``.
public struct VerifyReport: StoreReport, Hashable, Codable {
    /// The number of intact items, locked ones included.
    public var intact: Int

    /// How many of the intact items are locked. Only their names and attributes were checked.
    public var locked: Int

    /// All problems found.
    public var findings: [StoreFinding]

    /// Creates a report.
    ///
    /// - Parameters:
    ///   - intact: The number of intact items, locked ones included.
    ///   - locked: How many of the intact items are locked.
    ///   - findings: All problems found.
    public init(intact: Int = 0, locked: Int = 0, findings: [StoreFinding] = []) {
        self.intact = intact
        self.locked = locked
        self.findings = findings
    }
}
