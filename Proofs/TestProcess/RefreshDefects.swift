import Foundation

@testable import Lockbox
@testable import LockboxCore

/// Refreshes that Proofs/Refresh/run must find wrong.
extension RefreshWorker {
    private struct Claim: Codable {
        let id: String
        let until: Int
    }

    /// - Parameter defect: `noClaim`; `noCheck`, which writes whatever was written meanwhile; or `earlyRelease`, which gives up the
    ///   claim before it writes.
    func refreshedBadly(_ defect: String, _ id: String, _ session: String) async throws -> RefreshToken? {
        while true {
            let found = try await offPool { try lockbox.unarchiveObject(RefreshToken.self, forKey: session) }
            guard let old = found, !old.isFresh else { return found }
            let mayBeSpent = defect == "noClaim" ? false : try await offPool { try claim(id, session, old) }
            guard let mayBeSpent else {
                try await Task.sleep(for: .milliseconds(2))
                continue
            }
            let new = try await exchange(id, session, old, mayBeSpent, true)
            try await offPool {
                if defect == "earlyRelease" { try release(id, session) }
                try lockbox.archiveObject(new, forKey: session)
                if defect == "noCheck" { try release(id, session) }
            }
            return new
        }
    }

    /// Returns whether another one had it before, or nil if another one has it now.
    private func claim(_ id: String, _ session: String, _ old: RefreshToken) throws -> Bool? {
        var result: Bool?
        let time = Int(takeover / .nanoseconds(1))
        try lockbox.update("\(session) claim", as: Claim.self) { claim in
            if let claim, claim.until > RefreshLog.now { return }
            result = claim != nil
            claim = Claim(id: id, until: RefreshLog.now + time)
        }
        guard result != nil else { return nil }
        if try lockbox.unarchiveObject(forKey: session) == old { return result }
        try release(id, session)
        return nil
    }

    private func release(_ id: String, _ session: String) throws {
        try lockbox.update("\(session) claim", as: Claim.self) { if $0?.id == id { $0 = nil } }
    }
}
