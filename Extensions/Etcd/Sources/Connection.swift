#if Etcd
    import CCurl
    import LockboxCore
    import LockboxPlatform

    /// A connection to one server after the other, kept open between requests. One thread at a time uses it.
    final class Connection {
        /// The outcome of a request that was answered.
        struct Response {
            let status: Int
            let body: Data
        }

        /// A request without a complete answer.
        struct Failure: Error {
            let reason: String
            let cause: GatewayError.Cause?
            /// Whether the server may have received it.
            let isSent: Bool
        }

        /// Whether libcurl may have sent the last request twice. It does that, and reports success, if a connection that
        /// was open already ends before the first byte of an answer; no option prevents it.
        private(set) var mayHaveResent = false
        private var used: Set<String> = []
        let handle: UnsafeMutableRawPointer
        let received = Received()

        /// The limit of an answer's header, many times what etcd sends. Some versions of libcurl have no limit.
        private static let maximumHeaderLength = 65_536
        static let ready: Void = precondition(curl_global_init(Int(CURL_GLOBAL_DEFAULT)) == CURLE_OK)

        final class Received {
            var bytes = Data()
            /// The most bytes to keep.
            var maximum = 0
            private(set) var isTooLong = false
            private var headerLength = 0
            /// Called after more bytes have arrived. Returns whether to go on.
            var look: (() -> Bool)?

            func begin(maximum: Int) {
                (bytes, self.maximum, isTooLong, headerLength) = (Data(), maximum, false, 0)
            }

            /// Returns false to end the request.
            func append(_ more: UnsafeRawBufferPointer) -> Bool {
                isTooLong = bytes.count + more.count > maximum
                if isTooLong { return false }
                bytes.append(contentsOf: more)
                return look?() ?? true
            }

            func countHeader(_ length: Int) -> Bool {
                headerLength += length
                return headerLength <= Connection.maximumHeaderLength
            }
        }

        init(_ security: EtcdSecurity) {
            _ = Self.ready
            handle = curl_easy_init()!
            security.apply(to: handle)
            for (option, value) in [
                (CURLOPT_NOSIGNAL, 1), (CURLOPT_FOLLOWLOCATION, 0), (CURLOPT_TCP_KEEPALIVE, 1),
                // A machine that is gone is noticed after two minutes.
                (CURLOPT_TCP_KEEPIDLE, 30), (CURLOPT_TCP_KEEPINTVL, 10),
                (CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_1_1)),
            ] { curl_set_number(handle, option, value) }
            curl_set_private_sockets(handle)
            curl_set_no_wait_for_names(handle)
            // Without it, the environment's http_proxy would receive everything.
            curl_set_text(handle, CURLOPT_PROXY, "")
            curl_set_pointer(handle, CURLOPT_WRITEDATA, Unmanaged.passUnretained(received).toOpaque())
            curl_set_receiver(handle) { bytes, size, count, context in
                let received = Unmanaged<Received>.fromOpaque(context!).takeUnretainedValue()
                let length = size * count
                return received.append(UnsafeRawBufferPointer(start: bytes, count: length)) ? length : 0
            }
            curl_set_pointer(handle, CURLOPT_HEADERDATA, Unmanaged.passUnretained(received).toOpaque())
            curl_set_header_receiver(handle) { _, size, count, context in
                let received = Unmanaged<Received>.fromOpaque(context!).takeUnretainedValue()
                return received.countHeader(size * count) ? size * count : 0
            }
        }

        deinit { curl_easy_cleanup(handle) }

        /// - Parameters:
        ///   - limit: After which the request fails, answered or not.
        ///   - connecting: The part of it that may pass before there is a connection.
        ///   - maximum: The most bytes that the answer may have.
        func post(
            _ body: [UInt8],
            to server: String,
            path: String,
            headers: [String],
            limit: Duration,
            connecting: Duration,
            maximum: Int = 65_536
        ) throws(Failure) -> Response {
            let isWarm = !used.insert(server).inserted
            mayHaveResent = false
            curl_set_text(handle, CURLOPT_URL, server + path)
            curl_set_number(handle, CURLOPT_TIMEOUT_MS, limit.milliseconds)
            curl_set_number(handle, CURLOPT_CONNECTTIMEOUT_MS, connecting.milliseconds)
            let result = withRequest(body, headers, maximum: maximum) { curl_easy_perform(handle) }
            mayHaveResent = isWarm && number(CURLINFO_NUM_CONNECTS) > 0
            guard result == CURLE_OK else {
                let isSent = number(CURLINFO_REQUEST_SIZE) > 0
                if received.isTooLong { throw Failure(reason: Self.tooLong, cause: .tooLong, isSent: isSent) }
                let cause: GatewayError.Cause? = result == CURLE_OPERATION_TIMEDOUT ? .timeout : nil
                throw Failure(reason: Self.reason(result), cause: cause, isSent: isSent)
            }
            return Response(status: number(CURLINFO_RESPONSE_CODE), body: received.bytes)
        }

        /// libcurl does not copy the body, so it is valid during `perform` only.
        func withRequest<Result>(
            _ body: [UInt8],
            _ headers: [String],
            maximum: Int,
            _ perform: () -> Result
        ) -> Result {
            received.begin(maximum: maximum)
            let list = headers.reduce(nil as UnsafeMutablePointer<curl_slist>?) { curl_slist_append($0, $1) }
            defer { curl_slist_free_all(list) }
            curl_set_pointer(handle, CURLOPT_HTTPHEADER, list)
            return body.withUnsafeBytes { bytes in
                curl_set_number(handle, CURLOPT_POSTFIELDSIZE, bytes.count)
                curl_set_pointer(handle, CURLOPT_POSTFIELDS, bytes.baseAddress)
                return perform()
            }
        }

        func number(_ info: CURLINFO) -> Int {
            var value = 0
            return curl_get_number(handle, info, &value) == CURLE_OK ? value : 0
        }

        /// The reason of a request that the time limit has ended.
        static let noAnswer = "it did not answer in time"
        /// The reason of a request whose answer has more bytes than were asked for.
        static let tooLong = "its answer is too long"

        /// libcurl's own words. They do not contain what was sent or received.
        static func reason(_ code: CURLcode) -> String {
            code == CURLE_OPERATION_TIMEDOUT ? noAnswer : String(cString: curl_easy_strerror(code))
        }
    }

    extension Duration {
        /// At least 1: libcurl takes 0 for no limit.
        var milliseconds: Int { max(1, Int(self / .milliseconds(1))) }
    }

    extension LockboxError {
        static func tooLarge(for target: Subject) -> LockboxError {
            let text =
                "The change is too large for \(target). Store smaller values, or raise etcd's --max-request-bytes."
            return .storageFailure(operation: "txn", path: target, errno: E2BIG, explanation: text)
        }

        fileprivate static func noSpace(on endpoint: Subject) -> LockboxError {
            let text =
                "\(endpoint) has no space left. Compact and defragment etcd, then disarm its alarm with etcdctl alarm disarm."
            return .storageFailure(operation: "txn", path: endpoint, errno: ENOSPC, explanation: text)
        }
    }

    /// Why a request has no usable answer, and what may have become of it.
    struct GatewayError: Error {
        /// The advice for the user.
        enum Remedy { case tryElsewhere, authenticate, giveUp }

        /// The reasons that a caller can do something about.
        enum Cause {
            /// The answer has more bytes than the request allows. One for less could have fewer.
            case tooLong
            /// The time limit has ended the request.
            case timeout
            /// The revision that was asked for is gone: etcd keeps old ones for a while only.
            case compacted
            /// etcd has removed a lease before its time, or is another cluster by now.
            case leaseNotFound
        }

        let error: LockboxError
        let remedy: Remedy
        private(set) var cause: Cause?
        /// Whether the request may have taken effect, or still may.
        private(set) var isInDoubt: Bool
        /// The contradiction between this answer and earlier ones about the cluster.
        var contradiction: History?

        init(_ error: LockboxError, _ remedy: Remedy, cause: Cause? = nil, isInDoubt: Bool) {
            self.error = error
            self.remedy = remedy
            self.cause = cause
            self.isInDoubt = isInDoubt
        }

        func inDoubt(_ isInDoubt: Bool) -> GatewayError {
            var result = self
            result.isInDoubt = isInDoubt || self.isInDoubt
            return result
        }

        static func notReachable(_ endpoint: String, _ reason: String, isInDoubt: Bool) -> GatewayError {
            GatewayError(
                .notReachable(endpoint: .endpoint(endpoint), reason: reason),
                .tryElsewhere,
                isInDoubt: isInDoubt
            )
        }

        /// Creates the error that an answer reports.
        init(_ response: Connection.Response, from address: String) {
            let endpoint = LockboxError.Subject.endpoint(address)
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
                self.init(.tooLarge(for: endpoint), .giveUp, isInDoubt: false)
            case .resourceExhausted where message.contains("space exceeded"):
                self.init(.noSpace(on: endpoint), .giveUp, isInDoubt: false)
            case .resourceExhausted where message.contains("too many requests"):
                self = .notReachable(address, message, isInDoubt: false)
            case .invalidArgument where message.contains("authentication failed"), .permissionDenied,
                .failedPrecondition:
                self.init(.accessDenied(endpoint: endpoint, reason: message), .giveUp, isInDoubt: false)
            case .invalidArgument, .notFound, .resourceExhausted, .outOfRange:
                self.init(.notReachable(endpoint: endpoint, reason: message), .giveUp, isInDoubt: false)
            case .unavailable where message.contains("no leader"):
                self = .notReachable(address, message, isInDoubt: false)
            case .unavailable, nil:
                self = .notReachable(address, message, isInDoubt: true)
            }
            // etcd says it in words only.
            if message.contains("has been compacted") { cause = .compacted }
            if message.contains("lease not found") { cause = .leaseNotFound }
        }

        private static let maximumLength = 65_536

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

    /// The cluster that answers, and how far it has come, as its answers say.
    ///
    /// One of them may be false. So what contradicts them is an error of the call that has received it, and afterwards counts
    /// instead, unless other members of that call go on to say the same as before.
    struct History: Equatable {
        let cluster: UInt64
        var revision: UInt64
    }
#endif
