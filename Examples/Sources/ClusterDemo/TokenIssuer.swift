import Foundation
import TinyHTTP

/// Issues tokens, and ends a session whose refresh token is used twice, as RFC 9700 recommends: one of the two who used it may
/// be a thief.
actor TokenIssuer {
    private struct Login {
        let user: String
        var refreshToken = UUID().uuidString
        /// The refresh tokens that were used, and when.
        var used: [String: ContinuousClock.Instant] = [:]
        var accessTokens: [String: ContinuousClock.Instant] = [:]
        var refreshes = 0
        var isRefreshing = false
        var isRevoked = false
    }

    private let lifetime: Duration
    /// For how long the token that was used last may be used once more, by a client that did not get the answer.
    private let grace: Duration
    /// How long the answer to the first refresh of a session takes.
    private let delay: Duration
    private var logins: [Login] = []
    private var overlapping = 0

    init(lifetime: Duration, grace: Duration, delay: Duration) {
        (self.lifetime, self.grace, self.delay) = (lifetime, grace, delay)
    }

    func answer(_ request: Request) async -> Response {
        switch (request.method, request.path) {
        case ("POST", "/token"): return await tokens(request.body)
        case ("GET", "/profile"): return profile(request.token ?? "")
        case ("GET", "/report"): return report()
        default: return Response(404)
        }
    }

    private func tokens(_ form: String) async -> Response {
        let fields = form.split(separator: "&").map { $0.split(separator: "=").map(String.init) }
        let values = Dictionary(fields.filter { $0.count == 2 }.map { ($0[0], $0[1]) }) { first, _ in first }
        if let user = values["user"], values["grant_type"] == "demo" {
            logins.append(Login(user: user))
            return issue(logins.count - 1)
        }
        return await refresh(values["refresh_token"] ?? "")
    }

    private func refresh(_ token: String) async -> Response {
        let refused = Response(400, #"{"error": "invalid_grant"}"#)
        guard let index = logins.firstIndex(where: { $0.refreshToken == token || $0.used[token] != nil })
        else { return refused }
        if logins[index].isRefreshing { overlapping += 1 }
        if let used = logins[index].used[token] {
            let isRepeated = used == logins[index].used.values.max() && .now - used < grace
            if !isRepeated { logins[index].isRevoked = true }
        }
        if logins[index].isRevoked { return refused }
        if logins[index].refreshToken == token { logins[index].used[token] = .now }
        logins[index].refreshToken = UUID().uuidString
        logins[index].refreshes += 1
        logins[index].isRefreshing = true
        let response = issue(index)
        try? await Task.sleep(for: logins[index].refreshes == 1 ? delay : .milliseconds(50))
        logins[index].isRefreshing = false
        return response
    }

    private func issue(_ index: Int) -> Response {
        let token = UUID().uuidString
        logins[index].accessTokens[token] = .now + lifetime
        let answer =
            #"{"access_token": "\#(token)", "refresh_token": "\#(logins[index].refreshToken)", "#
            + #""expires_in": \#(lifetime / .seconds(1))}"#
        return Response(200, answer)
    }

    /// The user, and how often the session has been refreshed.
    private func profile(_ token: String) -> Response {
        guard let login = logins.first(where: { $0.accessTokens[token] != nil }), !login.isRevoked,
            login.accessTokens[token]! > .now
        else { return Response(401) }
        return Response(200, "\(login.user) \(login.refreshes)")
    }

    private func report() -> Response {
        let revoked = logins.filter(\.isRevoked).count
        let refreshes = logins.reduce(0) { $0 + $1.refreshes }
        return Response(200, "refreshes \(refreshes)\noverlapping \(overlapping)\nrevoked \(revoked)\n")
    }
}
