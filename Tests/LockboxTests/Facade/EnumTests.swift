import Testing

@Suite struct EnumTests {
    /// The enums that have all their cases, and why.
    private static let complete: [String: Set<String>] = [
        "an implementation of the contract has to handle every case": [
            "ItemOperation", "RecordChange", "CommitOutcome", "RecordNotice", "KeychainValue",
        ],
        "a call handles every case for its caller": [
            "WritePolicy", "ExistingItemPolicy", "Expiry", "AttributeChange",
            "StoreRequirements.Protection", "KeychainSimulator.Platform", "KeychainSimulator.User",
        ],
        "the Keychain has these and no others": ["Accessibility"],
        "the accessibility classes tell no other states apart": ["LockState"],
        "it has no cases": ["KeychainName", "KeychainStatus"],
    ]

    /// So that an app that is compiled in another package has an `@unknown default`.
    @Test func everyEnumThatMayGrowSaysSo() throws {
        let enums = try PublicSources().types.filter { $0.value.keyword == "enum" }
        let unmarked = enums.filter { !$0.value.isNonexhaustive }.keys
        #expect(Set(unmarked).symmetricDifference(Self.complete.values.joined()) == [])
        let marked: Set = [
            "LockboxError", "LockboxChange", "StoreFinding.Kind", "SlotKind", "MigrationRefusal",
            "MigrationReport.Outcome", "FailingBackend.Operation", "UnlockScope", "PasscodeStrength",
        ]
        #expect(marked.isSubset(of: enums.keys))
    }
}
