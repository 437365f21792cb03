import LockboxCore

/// What a record was at some instant.
enum KnownContents: Sendable {
    case absent
    case present(Record)
}
