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
}

enum SessionError: Error {
    /// There is no session, or the issuer has ended it.
    case loggedOut
}

/// The sessions of all users, which the instances of a service share. For each session there is one refresh at a time.
struct SessionKeeper: Sendable {
    private let lockbox: Lockbox
    private let issuer: Issuer
    private let limits: Lockbox.RefreshLimits

    /// - Parameter patience: How long an instance may be silent that has begun a refresh.
    init(_ lockbox: Lockbox, _ issuer: Issuer, patience: Duration = .seconds(30)) {
        (self.lockbox, self.issuer) = (lockbox, issuer)
        limits = Lockbox.RefreshLimits(takeover: patience)
    }

    func logIn(_ user: String) async throws {
        try await lockbox.archiveObject(issuer.logIn(user), forKey: user, accessibility: .afterFirstUnlock)
    }

    /// Returns an access token that is valid for some time yet.
    func accessToken(of user: String) async throws -> String {
        let session = try await lockbox.refreshed(
            user,
            as: Session.self,
            limits: limits,
            isFresh: { $0.refreshAt > .now },
            isUsable: { $0.expires > .now }
        ) { old in
            do { return try await issuer.refresh(old.value.refreshToken) } catch IssuerError.refused {
                try await lockbox.update(user, as: Session.self) {
                    // Not a session that has begun since.
                    if $0?.refreshToken == old.value.refreshToken { $0 = nil }
                }
                throw SessionError.loggedOut
            }
        }
        guard let session else { throw SessionError.loggedOut }
        return session.accessToken
    }
}
