#if Etcd
    import LockboxCore
    import LockboxPlatform
    import LockboxSealed

    /// The records outside of namespaces, as they were last read: the keybag, which commits expect long after it was read.
    ///
    /// A restored snapshot uses revisions again, so another keybag can have the revision of the one that is expected. Its bytes
    /// are others: so a commit compares those.
    final class KnownRecords: Sendable {
        private let records = Protected<[(revision: RecordRevision, value: Data)]>([])

        /// Of each of them. They are sent with each commit, so longer ones are left to their revision.
        private static let maximumLength = 16_384
        /// One thread may have read a newer one than another thread expects.
        private static let maximum = 8

        func remember(_ record: RecordName, _ value: Data, _ revision: RecordRevision) {
            guard record.namespace == nil, value.count <= Self.maximumLength else { return }
            records.withLock { records in
                if records.contains(where: { $0.revision == revision }) { return }
                if records.count == Self.maximum { records.removeFirst() }
                records.append((revision, value))
            }
        }

        func value(of record: RecordName, at revision: RecordRevision) -> Data? {
            guard record.namespace == nil else { return nil }
            return records.withLock { $0.first { $0.revision == revision }?.value }
        }
    }
#endif
