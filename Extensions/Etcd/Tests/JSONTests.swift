#if Etcd
    import Foundation
    import Testing

    @testable import LockboxEtcd

    /// The messages to and from the gateway, beside Foundation's coders.
    @Suite struct JSONTests {
        private let answer = """
            {"header":{"cluster_id":"14841639068965178418","member_id":"1","revision":"7","raft_term":"2"},\
            "succeeded":true, "responses":[{"response_put":{"header":{"revision":"7"}}},{"response_range":{"kvs":[\
            {"key":"azE=","create_revision":"3","mod_revision":"5","version":"2","value":"AAEC/w=="},\
            {"key":"azI=","mod_revision":6}],"more":true,"count":"2"}}], "later":[{"x":[1.5e-3,null,"a\\"]}"]}]}
            """

        @Test func anAnswerIsRead() throws {
            let read = try JSONReader.read(TransactionAnswer.self, Data(answer.utf8), elements: 4)
            #expect(read.header?.cluster == 14_841_639_068_965_178_418)
            #expect(read.header?.revision == 7)
            #expect(read.isDone)
            let range = try #require(read.ranges.first)
            #expect(read.ranges.count == 1 && range.hasMore && range.header == nil)
            #expect(range.found.map(\.key) == [Data("k1".utf8), Data("k2".utf8)])
            #expect(range.found.map(\.value) == [Data([0, 1, 2, 255]), Data()])
            #expect(range.found.map(\.revision) == [5, 6])
        }

        /// A connection may end anywhere, and what is behind a proxy may answer anything.
        @Test func whatIsCutOrChangedIsReadOrRefused() throws {
            let bytes = Array(answer.utf8)
            for count in 0..<bytes.count {
                #expect(throws: JSONReader.Malformed.self, "\\(count) bytes") {
                    try JSONReader.read(TransactionAnswer.self, Data(bytes.prefix(count)), elements: 4)
                }
            }
            var accepted = 0
            for index in bytes.indices {
                for byte in [0, 0x20, 0x22, 0x2C, 0x30, 0x5B, 0x5C, 0x5D, 0x7B, 0x7D, 0xFF] as [UInt8] {
                    var changed = bytes
                    changed[index] = byte
                    let read = try? JSONReader.read(TransactionAnswer.self, Data(changed), elements: 4)
                    if read != nil { accepted += 1 }
                }
            }
            #expect(accepted > 0 && accepted < bytes.count * 11)
        }

        @Test(arguments: [
            "", " ", "null", "[]", "{", "{}}", "{\"kvs\":{}}", "{\"kvs\":[{}", "{\"more\":1}",
            "{\"more\":\"true\"}",
            "{\"kvs\":[{\"key\":\"a\"}]}", "{\"kvs\":[{\"key\":\"a\\u0062\"}]}",
            "{\"kvs\":[{\"mod_revision\":-1}]}",
            "{\"kvs\":[{\"mod_revision\":\"1\"\"}]}", "{\"kvs\":[{\"mod_revision\":\"\"}]}",
            "{\"kvs\":[{\"mod_revision\":\"18446744073709551616\"}]}", "{\"kvs\":[{\"mod_revision\":1.5}]}",
            "{\"kvs\":[{\"mod_revision\":99999999999999999999}]}", "{\"x\":}", "{\"x\":?}", "{\"x\" 1}",
            "{x:1}",
        ])
        func whatIsNoAnswerIsRefused(_ text: String) {
            #expect(throws: JSONReader.Malformed.self) {
                try JSONReader.read(RangeAnswer.self, Data(text.utf8), elements: 4)
            }
        }

        @Test func whatIsAbsentOrNullIsEmpty() throws {
            for text in ["{}", "{ \n\t}\r\n", "{\"kvs\":null,\"more\":null,\"header\":null}"] {
                let read = try JSONReader.read(RangeAnswer.self, Data(text.utf8))
                #expect(read.found.isEmpty && !read.hasMore && read.header == nil)
            }
            #expect(
                try JSONReader.read(RangeAnswer.self, Data("{\"more\":false,\"kvs\":[]}".utf8)).found.isEmpty
            )
        }

        @Test func nestingHasALimit() {
            func nested(_ depth: Int) -> Data {
                Data(
                    ("{\"x\":" + String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
                        + "}").utf8
                )
            }
            #expect(throws: Never.self) { try JSONReader.read(Done.self, nested(31)) }
            #expect(throws: JSONReader.Malformed.self) { try JSONReader.read(Done.self, nested(32)) }
            #expect(throws: JSONReader.Malformed.self) { try JSONReader.read(Done.self, nested(1_000_000)) }
        }

        @Test(arguments: ["plain", "", "a\"b\\c/d\u{8}\u{c}\n\r\t\u{1}", "naïve 日本 🔑", "<&>\u{2028}"])
        func textsGoThereAndBack(_ text: String) throws {
            let encoded = try JSONEncoder().encode(["code": nil, "message": text])
            #expect(try JSONReader.read(ErrorAnswer.self, encoded).message == text)
            // Go writes these so.
            let escaped = text.utf16.map { "\\u" + String(String(UInt32($0) + 0x10000, radix: 16).suffix(4)) }
                .joined()
            let answer = try JSONReader.read(
                ErrorAnswer.self,
                Data("{\"code\":3,\"message\":\"\(escaped)\"}".utf8)
            )
            #expect(answer.message == text && answer.code == 3)
            let body = AuthenticationRequest(name: text, password: text + text).body
            #expect(
                try JSONDecoder().decode([String: String].self, from: Data(body))
                    == ["name": text, "password": text + text]
            )
        }

        @Test func aRequestIsWhatFoundationReads() throws {
            struct Range: Decodable { let key, range_end: Data?, limit, revision: String?, keys_only: Bool? }
            var request = RangeRequest(Data([0, 255]), to: Data())
            request.limit = .max
            request.isOnlyKeys = true
            var read = try JSONDecoder().decode(Range.self, from: Data(request.body))
            #expect(
                read.key == Data([0, 255]) && read.range_end == Data() && read.limit == "18446744073709551615"
            )
            #expect(read.revision == nil && read.keys_only == true)
            struct Transaction: Decodable {
                struct Comparison: Decodable { let key: Data, target, mod_revision: String }
                struct Operation: Decodable {
                    let request_range: Range?, request_put: Put?, request_delete_range: Range?
                }
                struct Put: Decodable { let key, value: Data, lease: String? }
                let compare: [Comparison], success, failure: [Operation]
            }
            let key = Data("k".utf8)
            let transaction = LockboxEtcd.Transaction(
                compare: [.init(key, at: 0), .init(key, at: 9)],
                success: [.put(key, Data([1])), .delete(key), .put(key, Data(), lease: 4)],
                failure: [.range(request)]
            )
            let all = try JSONDecoder().decode(Transaction.self, from: Data(transaction.body))
            #expect(
                all.compare.map(\.mod_revision) == ["0", "9"] && all.compare.allSatisfy { $0.target == "MOD" }
            )
            #expect(all.success.map { $0.request_put?.value } == [Data([1]), nil, Data()])
            #expect(all.success.map { $0.request_put?.lease } == [nil, nil, "4"])
            #expect(all.success[1].request_delete_range?.key == key)
            read = try #require(all.failure.first?.request_range)
            #expect(read.key == request.key)
            #expect(
                try JSONDecoder().decode(Transaction.self, from: Data(LockboxEtcd.Transaction().body)).success
                    .isEmpty
            )
        }

        @Test func messagesOfAWatchAreRead() throws {
            let text = """
                {"result":{"header":{"revision":"8"},"events":[{"kv":{"key":"azE=","mod_revision":"8"}},\
                {"type":"DELETE","kv":{"key":"azI=","mod_revision":"8"}}]}}
                """
            let message = try JSONReader.read(WatchMessage.self, Data(text.utf8), elements: 2)
            #expect(message.changes.map(\.revision) == [8, 8] && message.header?.revision == 8)
            #expect(!message.isError && !message.isCanceled && !message.isCompacted)
            let canceled =
                "{\"result\":{\"canceled\":true,\"compact_revision\":\"9\",\"cancel_reason\":\"gone\"}}"
            let end = try JSONReader.read(WatchMessage.self, Data(canceled.utf8))
            #expect(end.isCanceled && end.isCompacted && end.reason == "gone")
            #expect(
                try JSONReader.read(WatchMessage.self, Data("{\"error\":{\"grpc_code\":14}}".utf8)).isError
            )
        }
    }
#endif
