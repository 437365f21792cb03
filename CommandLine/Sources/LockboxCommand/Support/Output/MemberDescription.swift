import Lockbox

/// A member of a cluster as it is printed. Documented: fields may be added, but never removed.
struct MemberDescription: Encodable {
    let endpoint: String
    let state: String
    let version: String?
    let databaseBytes: UInt64?
    let milliseconds: Double?
    /// Why it did not answer.
    let reason: String?

    static func print(_ members: [MemberDescription]) throws {
        var table = Table(header: ["MEMBER", "STATE", "VERSION", "DATABASE", "LATENCY"])
        table.rows = members.map {
            [
                $0.endpoint, $0.state, $0.version ?? "-", $0.databaseBytes.map { "\($0 / 1024) KiB" } ?? "-",
                $0.milliseconds.map { "\(Double(Int($0 * 10)) / 10) ms" } ?? "-",
            ]
        }
        try table.print()
        for member in members {
            if let reason = member.reason { Output.note("lockbox: \(reason.onOneLine)") }
        }
    }
}

extension MemberDescription {
    /// A member may answer everybody, but say how it is only to some.
    init(endpoint: String, _ error: LockboxError) {
        self.init(
            endpoint: endpoint,
            state: error.code == .accessDenied ? "denied" : "unreachable",
            version: nil,
            databaseBytes: nil,
            milliseconds: nil,
            reason: "\(error)"
        )
    }
}
