#if Etcd
    import LockboxCore
    import LockboxPlatform

    extension EtcdStorage {
        /// Makes the cluster forget every value that was replaced or removed by now: those of this store, and **those of
        /// everybody else who uses the cluster**.
        ///
        /// Use it after a rotation, if nothing else in the cluster needs its history. The old values can then no longer be
        /// read with any revision. Their bytes stay in the free pages of each member's file until it is defragmented
        /// (`etcdctl defrag`), and in snapshots.
        ///
        /// Nothing is lost that is still valid. A sequence of changes that was further behind says that anything may have
        /// changed.
        ///
        /// - Throws: ``LockboxError/notReachable(endpoint:reason:)`` or ``LockboxError/accessDenied(endpoint:reason:)``.
        public func compact() throws {
            do {
                let deadline = gateway.deadline
                let now: RangeAnswer = try gateway.call(
                    "/v3/kv/range",
                    RangeRequest(Data("\(root)/".utf8)),
                    until: deadline
                ).answer
                guard let revision = now.header?.revision else {
                    throw Fault.notReachable(gateway.list, "it names no revision", isInDoubt: false)
                }
                let request = CompactionRequest(revision: revision)
                do {
                    let _: Done = try gateway.call("/v3/kv/compaction", request, until: deadline)
                        .answer
                } catch let fault as Fault where fault.isCompacted { return }  // somebody was faster
            } catch let fault as Fault { throw fault.error }
        }
    }
#endif
