#if Etcd
    import LockboxCore
    import LockboxPlatform

    /// Why a request has no usable answer, and what may have become of it.
    struct GatewayError: Error {
        /// What to do about it.
        enum Remedy { case tryElsewhere, authenticate, giveUp }

        let error: LockboxError
        let remedy: Remedy
        /// Whether the request may have taken effect, or still may.
        private(set) var isInDoubt: Bool
        /// What the answer says of the cluster, if that contradicts earlier answers.
        var contradiction: History?

        init(_ error: LockboxError, _ remedy: Remedy, isInDoubt: Bool) {
            self.error = error
            self.remedy = remedy
            self.isInDoubt = isInDoubt
        }

        func inDoubt(_ isInDoubt: Bool) -> GatewayError {
            var result = self
            result.isInDoubt = isInDoubt || self.isInDoubt
            return result
        }

        static func notReachable(_ endpoint: String, _ reason: String, isInDoubt: Bool) -> GatewayError {
            GatewayError(
                .notReachable(endpoint: endpoint, reason: reason),
                .tryElsewhere,
                isInDoubt: isInDoubt
            )
        }

        /// Of an answer that is an error.
        init(_ response: Connection.Response, from endpoint: String) {
            let isShort = response.body.count <= Self.maximumLength
            let answer = isShort ? try? JSONReader.read(ErrorAnswer.self, response.body) : nil
            let message = answer?.message.map(ErrorAnswer.short) ?? "HTTP status \(response.status)"
            let code = answer?.code.flatMap(Int.init(exactly:)).flatMap(Code.init)
            switch code {
            case .unauthenticated:
                self.init(.accessDenied(endpoint: endpoint, reason: message), .authenticate, isInDoubt: false)
            case .invalidArgument where Self.asksForToken.contains(where: message.contains):
                self.init(.accessDenied(endpoint: endpoint, reason: message), .authenticate, isInDoubt: false)
            case .invalidArgument where message.contains("request is too large"),
                .resourceExhausted where message.contains("larger than max"):
                // Not `valueTooLarge`: etcd does not say what the limit is.
                let error = LockboxError.storageFailure(operation: "txn", path: endpoint, errno: E2BIG)
                self.init(error, .giveUp, isInDoubt: false)
            case .resourceExhausted where message.contains("space exceeded"):
                let error = LockboxError.storageFailure(operation: "txn", path: endpoint, errno: ENOSPC)
                self.init(error, .giveUp, isInDoubt: false)
            case .resourceExhausted where message.contains("too many requests"):
                self = .notReachable(endpoint, message, isInDoubt: false)
            case .invalidArgument where message.contains("authentication failed"), .permissionDenied,
                .failedPrecondition:
                self.init(.accessDenied(endpoint: endpoint, reason: message), .giveUp, isInDoubt: false)
            case .invalidArgument, .notFound, .resourceExhausted, .outOfRange:
                self.init(.notReachable(endpoint: endpoint, reason: message), .giveUp, isInDoubt: false)
            case .unavailable where message.contains("no leader"):
                self = .notReachable(endpoint, message, isInDoubt: false)
            case .unavailable, nil:
                self = .notReachable(endpoint, message, isInDoubt: true)
            }
        }

        private static let maximumLength = 65_536

        /// Whether the answer has more bytes than the request allows. One for less could have fewer.
        var isTooLong: Bool {
            if case .notReachable(_, let reason) = error { reason == Connection.tooLong } else { false }
        }

        /// Whether the time limit has ended the request.
        var isTimeout: Bool {
            if case .notReachable(_, let reason) = error { reason == Connection.noAnswer } else { false }
        }

        /// Whether the revision that was asked for is gone: etcd keeps old ones for a while only.
        var isCompacted: Bool {
            if case .notReachable(_, let reason) = error {
                reason.contains("has been compacted")
            } else {
                false
            }
        }

        /// Whether etcd has removed a lease before its time, or is another cluster by now.
        var isWithoutLease: Bool {
            if case .notReachable(_, let reason) = error { reason.contains("lease not found") } else { false }
        }

        /// Whether etcd refuses a subscription because of its token, which it says with status 200.
        static func isOfToken(_ reason: String) -> Bool {
            (asksForToken + ["invalid auth token"]).contains(where: reason.contains)
        }

        private static let asksForToken = ["user name is empty", "revision of auth store is old"]

        /// The codes of gRPC after which a request has certainly had no effect. After all others it may have.
        private enum Code: Int {
            case invalidArgument = 3, notFound = 5, permissionDenied = 7, resourceExhausted = 8,
                failedPrecondition = 9
            case outOfRange = 11, unavailable = 14, unauthenticated = 16
        }
    }
#endif
