#if Etcd
    import LockboxCore
    import LockboxPlatform

    extension EtcdStorage {
        /// Compacts the cluster's history up to the current revision. Removes the replaced and removed values of this store
        /// and **of everybody else who uses the cluster**.
        ///
        /// Use it after a rotation, if nothing else in the cluster needs its history. The old values can then no longer be
        /// read with any revision. Their bytes stay in the free pages of each member's file until it is defragmented
        /// (`etcdctl defrag`), and in snapshots.
        ///
        /// Current values are kept. A change sequence that lags behind reports ``LockboxChange/everything``.
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
                    throw GatewayError.notReachable(
                        gateway.list,
                        "its answer has no revision",
                        isInDoubt: false
                    )
                }
                let request = CompactionRequest(revision: revision)
                do {
                    let _: Done = try gateway.call("/v3/kv/compaction", request, until: deadline)
                        .answer
                } catch let failure as GatewayError where failure.isCompacted {
                    return  // somebody was faster
                }
            } catch let failure as GatewayError { throw failure.error }
        }
    }
#endif
