/// The result of ``VerifiableBackend/verify(progress:)``.
public struct VerifyReport: StoreReport, Hashable, Codable {
    /// The number of intact items, locked ones included.
    public var intactCount: Int

    /// How many of the intact items are locked. Only their names and attributes were checked.
    public var lockedCount: Int

    /// All problems found.
    public var findings: [StoreFinding]

    /// Creates a report.
    ///
    /// - Parameters:
    ///   - intactCount: The number of intact items, locked ones included.
    ///   - lockedCount: How many of the intact items are locked.
    ///   - findings: All problems found.
    public init(intactCount: Int = 0, lockedCount: Int = 0, findings: [StoreFinding] = []) {
        self.intactCount = intactCount
        self.lockedCount = lockedCount
        self.findings = findings
    }
}
