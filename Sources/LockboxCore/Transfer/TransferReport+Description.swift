extension TransferReport: CustomStringConvertible, CustomReflectable {
    /// How many items were transferred and kept, and the findings. An error of the app's own backend may quote a value, so only
    /// its type is shown.
    public var description: String {
        "TransferReport(\(transferredKeys.count) transferred, \(keptKeys.count) kept, findings: \(findings))"
    }

    /// Keeps `dump(_:)` from showing the errors.
    public var customMirror: Mirror {
        Mirror(
            self,
            children: ["transferredKeys": transferredKeys, "keptKeys": keptKeys, "findings": findings]
        )
    }
}
