// swift-format-ignore-file: NeverUseForceTry

// Feeds arbitrary bytes to the reader of what etcd answers: who sits in its place must not be able to end the process.

import Foundation

func fuzzGateway(_ kind: Int, _ input: [UInt8]) {
    let body = Data(input)
    switch kind % 8 {
    case 0: read(RangeAnswer.self, body)
    case 1: read(TransactionAnswer.self, body)
    case 2: read(LeaseAnswer.self, body)
    case 3: read(AuthenticationAnswer.self, body)
    case 4: read(ErrorAnswer.self, body)
    case 5: read(StatusAnswer.self, body)
    case 6: read(Done.self, body)
    default: read(WatchMessage.self, body)
    }
}

/// It takes objects only. Bytes that are no UTF-8 it takes too, unlike Foundation, where it skips a member.
private func read<M: Message>(_ type: M.Type, _ body: Data) {
    guard (try? JSONReader.read(type, body)) != nil else { return }
    precondition(body.contains(UInt8(ascii: "{")) && body.contains(UInt8(ascii: "}")))
    guard String(validating: body, as: UTF8.self) != nil,
        let object = try? JSONSerialization.jsonObject(with: body, options: .fragmentsAllowed)
    else { return }
    precondition(object is [String: Any])
}

/// An answer of each kind.
func writeGatewaySeeds(to folder: String) {
    let header = #"{"cluster_id": "7", "member_id": "8", "revision": "12", "raft_term": "3"}"#
    let entry = #"{"key": "YS9i", "mod_revision": "9", "version": "4", "value": "AAEC"}"#
    let range = #"{"header": \#(header), "kvs": [\#(entry)], "more": true, "count": "2"}"#
    let seeds: [(UInt8, String)] = [
        (0, range),
        (1, #"{"header": \#(header), "succeeded": true, "responses": [{"response_range": \#(range)}]}"#),
        (2, #"{"header": \#(header), "ID": "7587862094675121166", "TTL": "10"}"#),
        (3, #"{"header": \#(header), "token": "é😀\/\"\\"}"#),
        (4, #"{"error": "etcdserver: no leader", "code": 14, "message": "etcdserver: no leader"}"#),
        (5, #"{"header": \#(header), "version": "3.4.23", "dbSize": "20480", "leader": "8"}"#),
        (6, #"{"header": \#(header)}"#),
        (7, #"{"result": {"header": \#(header), "events": [{"type": "DELETE", "kv": \#(entry)}]}}"#),
    ]
    for (kind, text) in seeds {
        try! Data([kind] + text.utf8).write(to: URL(fileURLWithPath: "\(folder)/seed-\(kind)"))
    }
}
