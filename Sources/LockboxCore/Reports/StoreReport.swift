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

/// A problem found in a store.
public struct StoreFinding: Sendable, Hashable, Codable {
    /// The kind of a problem.
    ///
    /// Minor versions may add cases.
    #if hasAttribute(nonexhaustive)
        @nonexhaustive
    #endif
    public enum Kind: String, Sendable, Hashable, Codable, CaseIterable {
        /// An item, the keybag or the device key cannot be read: damaged, missing, of an unknown version, or because a
        /// system call failed.
        case damaged
        /// A file, folder or device key that does not belong to this store.
        case foreign
        /// A temporary file of a writer that is running or was killed. The next writer removes those of
        /// killed ones a day later.
        case leftover
        /// The store was changed as long as it was read, so that what was read is not of one moment.
        case changing
        /// The storage did not answer, denied access, or did not say whether it made a change.
        case notReachable
        /// The keybag is older than one seen before, or an item is newer than the keybag.
        case rolledBack
        /// A change of the keys was interrupted, or is under way. The secrets that it should revoke still open new items, or make
        /// them, until the keys are rotated. Or only the copy of the keybag or of the device key was not made.
        case interrupted
        /// The store or an item is not what the program requires.
        case refused
        /// Others can read or change a file or folder, or it is not a regular file or folder.
        case unsafePermissions
    }

    /// The kind of problem.
    public let kind: Kind

    /// The record, the file, or the key of the item.
    public let location: String

    /// A description of the problem. Never contains a value.
    public let reason: String

    /// Creates a finding.
    ///
    /// - Parameters:
    ///   - kind: The kind of problem.
    ///   - location: The record, the file, or the key of the item.
    ///   - reason: A description of the problem. Must not contain a value.
    package init(kind: Kind, location: String, reason: String) {
        self.kind = kind
        self.location = location
        self.reason = reason
    }
}

extension StoreFinding {
    /// Creates the finding for an error that was thrown while a record was read.
    ///
    /// - Parameters:
    ///   - error: The error. It decides the kind and the reason.
    ///   - location: The record, the file, or the key of the item. Not used if the error names a file.
    public init(_ error: LockboxError, location: String) {
        switch error {
        case .unsafePermissions(let path, let reason):
            self.init(kind: .unsafePermissions, location: path.description, reason: reason)
        case .deviceKeyMismatch(let path):
            self.init(kind: .foreign, location: path, reason: error.problem)
        // The description would say the location once more.
        case .corrupt(let record, let reason) where record.description == location:
            self.init(kind: .damaged, location: location, reason: reason)
        case .authenticationFailed(let record) where record.description == location:
            let reason = "it was tampered with, or belongs to another key, prefix or store"
            self.init(kind: .damaged, location: location, reason: reason)
        case .missing(let record) where record.description == location:
            self.init(kind: .damaged, location: location, reason: "it is missing")
        case .rolledBack(_, let reason): self.init(kind: .rolledBack, location: location, reason: reason)
        case .requirementNotMet(_, let reason): self.init(kind: .refused, location: location, reason: reason)
        case .notReachable, .accessDenied, .outcomeUnknown:
            self.init(kind: .notReachable, location: location, reason: error.problem)
        default: self.init(kind: .damaged, location: location, reason: error.problem)
        }
    }
}

/// The progress of a long call.
public struct StoreProgress: Sendable, Hashable {
    /// The number of items processed so far.
    public let completed: Int

    /// The number of all items, as far as is known.
    public let total: Int

    /// Creates a progress value.
    ///
    /// - Parameters:
    ///   - completed: The number of items processed so far.
    ///   - total: The number of all items, as far as is known.
    public init(completed: Int, total: Int) {
        self.completed = completed
        self.total = total
    }
}

/// The result of ``LockboxBackend/verify(progress:)``.
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
