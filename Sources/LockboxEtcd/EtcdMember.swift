#if Etcd
    public import LockboxCore
    import LockboxPlatform

    /// The status of a member of the cluster.
    public struct EtcdMember: Sendable, Hashable {
        /// The member's endpoint, as passed to the storage.
        public let endpoint: String

        /// The version of etcd, such as `3.4.23`.
        public let version: String

        /// Whether the member is the leader.
        public let isLeader: Bool

        /// The size of the member's database file in bytes, including free pages that a defragmentation would release.
        public let databaseSize: UInt64

        /// The round-trip time of a status request on an open connection.
        public let latency: Duration
    }

    extension EtcdStorage {
        /// Asks every endpoint for its status, one after the other.
        ///
        /// - Parameter timeLimit: How long one endpoint may take.
        /// - Returns: The answers, in the order of the endpoints; ``LockboxError/notReachable(endpoint:reason:)`` or
        ///   ``LockboxError/accessDenied(endpoint:reason:)`` for those that give none, also if the source of the user's
        ///   password fails.
        public func members(timeLimit: Duration = .seconds(1)) -> [Result<EtcdMember, LockboxError>] {
            gateway.endpoints.map { endpoint in
                // A gateway of its own, as a member that lags must not count as an old state of the cluster.
                let gateway = Gateway(
                    endpoints: [endpoint],
                    security: gateway.security,
                    user: gateway.user,
                    timeLimit: timeLimit
                )
                do { return .success(try gateway.member(endpoint)) } catch let failure as GatewayError {
                    return .failure(failure.error)
                } catch {
                    // Of the source of the password. It may quote it, so only its type is shown.
                    let reason = "the source of the password failed with \(type(of: error))"
                    return .failure(.notReachable(endpoint: endpoint, reason: reason))
                }
            }
        }
    }

    extension Gateway {
        fileprivate func member(_ endpoint: String) throws -> EtcdMember {
            let path = "/v3/maintenance/status"
            let deadline = deadline  // one for both calls
            // The first answer takes the time of the connection as well.
            let _: Reply<StatusAnswer> = try call(path, StatusRequest(), until: deadline)
            var status: StatusAnswer?
            let latency = try ContinuousClock().measure {
                let result: Reply<StatusAnswer> = try call(path, StatusRequest(), until: deadline)
                status = result.answer
            }
            guard let status else {
                throw GatewayError.notReachable(endpoint, "its answer has no status", isInDoubt: false)
            }
            return EtcdMember(
                endpoint: endpoint,
                version: ErrorAnswer.short(status.version),
                isLeader: status.isLeader,
                databaseSize: status.size,
                latency: latency
            )
        }
    }
#endif
