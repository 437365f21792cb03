import LockboxCore
import LockboxPlatform

/// The state of a record before a write.
struct ExistingItem {
    enum State: Equatable {
        case absent
        case expired
        case present(created: Date, Accessibility)
        /// Exists but cannot be decoded: `.replace` may overwrite it, `.addOnly` fails.
        case damaged

        var exists: Bool { self != .absent && self != .expired }
    }

    let state: State
    let revision: RecordRevision

    /// As a record is that is longer than any of ours. Its revision is not known.
    var isRefusedUnread: Bool { state == .damaged && revision == .absent }

    init(_ state: State, _ revision: RecordRevision) {
        self.state = state
        self.revision = revision
    }
}
