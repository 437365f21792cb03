/// The result of ``VerifiableBackend/verify(progress:)``.
public struct VerifyReport: StoreReport, Hashable, Codable {
    /// The number of intact items.
    public var intact: Int

    /// The number of intact items that are locked. Only their names and attributes were checked.
    public var locked: Int

    /// All problems found.
    public var findings: [StoreFinding]

    /// Creates a report.
    ///
    /// - Parameters:
    ///   - intact: The number of intact items.
    ///   - locked: The number of intact items that are locked.
    ///   - findings: All problems found.
    public init(intact: Int = 0, locked: Int = 0, findings: [StoreFinding] = []) {
        self.intact = intact
        self.locked = locked
        self.findings = findings
    }
}
