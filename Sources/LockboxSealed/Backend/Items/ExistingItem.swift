import LockboxCore

/// The state of a record before a write.
struct ExistingItem {
    enum State {
        case absent
        case expired
        case present(ItemAttributes)
        /// Exists but cannot be decoded: `.replace` may overwrite it, the other policies fail.
        case damaged(LockboxError)
    }

    let state: State
    let revision: RecordRevision

    init(_ state: State, _ revision: RecordRevision) {
        self.state = state
        self.revision = revision
    }

    var exists: Bool {
        switch state {
        case .absent, .expired: false
        case .present, .damaged: true
        }
    }

    var isExpired: Bool { if case .expired = state { true } else { false } }

    var attributes: ItemAttributes? { if case .present(let attributes) = state { attributes } else { nil } }

    var damage: LockboxError? { if case .damaged(let error) = state { error } else { nil } }

    /// As a record is that is longer than any of ours. Its revision is not known.
    var isRefusedUnread: Bool { damage != nil && revision == .absent }
}
