import Foundation
import Lockbox

/// A user's OAuth session, as every instance finds it in the cluster.
struct Session: Codable, Sendable {
    var accessToken: String
    /// When an instance replaces it, and from when on none uses it any more.
    var refreshAt: Date
    var expires: Date
    /// Good for one use. A second use ends the session: that is how an issuer notices a stolen one.
    var refreshToken: String
    /// The refresh that has begun to use the refresh token.
    var refresh: UUID?
}

enum SessionError: Error {
    /// There is no session, or the issuer has ended it.
    case loggedOut
}

/// The sessions of all users, which the instances of a service share. For each session there is one refresh at a time:
///
/// 1. An instance writes who it is into the session, if nobody else is there.
/// 2. Then it asks the issuer, once.
/// 3. It writes the new tokens, if it is still the one who refreshes.
///
/// The issuer is never asked inside `update`, whose closure may run again, and in several instances at once.
actor SessionKeeper {
    private let lockbox: Lockbox
    private let issuer: Issuer
    /// How long an instance may be silent that has begun a refresh. Longer than any refresh can take.
    private let patience: Duration
    /// The refreshes of others that are waited for, and since when by this machine's clock.
    private var seen: [String: (refresh: UUID, since: ContinuousClock.Instant)] = [:]
    private var running: [UUID: Task<Void, any Error>] = [:]

    init(_ lockbox: Lockbox, _ issuer: Issuer, patience: Duration = .seconds(30)) {
        (self.lockbox, self.issuer, self.patience) = (lockbox, issuer, patience)
    }

    func logIn(_ user: String) async throws {
        try await lockbox.archiveObject(issuer.logIn(user), forKey: user, accessibility: .afterFirstUnlock)
    }

    /// Returns an access token that is valid for some time yet.
    func accessToken(of user: String) async throws -> String {
        let me = UUID()
        while true {
            guard let session = try await lockbox.unarchiveObject(Session.self, forKey: user) else {
                throw SessionError.loggedOut
            }
            if session.refreshAt > .now { return session.accessToken }
            if try await begin(session, user, me) {
                // A task of its own, so that nobody cancels it: from the issuer's answer until it is written, only this
                // process has the new refresh token.
                let task = Task { try await refresh(session.refreshToken, user, me) }
                running[me] = task
                defer { running[me] = nil }
                try await task.value
            } else if session.expires > .now {
                return session.accessToken  // another instance refreshes it
            } else {
                try await Task.sleep(for: .milliseconds(50))
            }
        }
    }

    /// Before the process ends.
    func finishRefreshes() async { for task in running.values { _ = await task.result } }

    /// Returns whether this call may use the refresh token.
    private func begin(_ session: Session, _ user: String, _ me: UUID) async throws -> Bool {
        if let other = session.refresh {
            if seen[user]?.refresh != other { seen[user] = (other, .now) }
            guard let since = seen[user]?.since, .now - since > patience else { return false }
        }
        func update() async throws -> Bool {
            let now = try await lockbox.update(user, as: Session.self) { current in
                guard current?.refreshToken == session.refreshToken,
                    [session.refresh, me].contains(current?.refresh)
                else { return }  // somebody else was quicker
                current?.refresh = me
            }
            return now?.refresh == me
        }
        // Once more, as this call's name may be there already.
        do { return try await update() } catch let error as LockboxError where error.code == .outcomeUnknown {
            return try await update()
        }
    }

    private func refresh(_ refreshToken: String, _ user: String, _ me: UUID) async throws {
        do {
            let new = try await issuer.refresh(refreshToken)
            try await end(user, me) { $0 = new }
        } catch IssuerError.notSent {
            try await end(user, me) { $0?.refresh = nil }
            throw IssuerError.notSent
        } catch IssuerError.refused {
            try await end(user, me) { $0 = nil }
            throw SessionError.loggedOut
        }
        // After any other error the token may have been used. Whoever has waited for long enough tries it once more.
    }

    private func log(_ text: String) {
        FileHandle.standardError.write(Data("SharedSession: \(text)\n".utf8))
    }

    /// Writes what came of a refresh, and does not give up, whatever prevents it: the cluster is away, its quota is used up, its
    /// user has lost a permission, or an older state of it was restored. Only this process has the new refresh token.
    private func end(_ user: String, _ me: UUID, _ change: @escaping @Sendable (inout Session?) -> Void)
        async throws
    {
        var logged: LockboxError.Code?
        while true {
            do {
                // If it has been written without an answer, or another instance has taken over, nothing happens.
                try await lockbox.update(user, as: Session.self) { if $0?.refresh == me { change(&$0) } }
                return
            } catch let error as LockboxError {
                // Once for each kind of error. It contains no token.
                if error.code != logged { log("a refreshed session is not written yet: \(error)") }
                logged = error.code
                let isOutage = [.notReachable, .outcomeUnknown].contains(error.code)
                try await Task.sleep(for: isOutage ? .milliseconds(100) : .seconds(1))
            }
        }
    }
}
