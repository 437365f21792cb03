/// What has changed in a namespace.
public enum RecordNotice: Sendable, Hashable {
    /// The records with these names were written or removed.
    case records(Set<String>)

    /// Anything may have changed.
    case everything
}
