import Foundation
import TinyHTTP

enum IssuerError: Error {
    /// It was not asked.
    case notSent
    /// It may have been asked.
    case noAnswer
    /// The refresh token is not valid, or no longer.
    case refused
}

/// The issuer's two kinds of grants, and what its tokens are for.
struct Issuer: Sendable {
    let port: Int

    func logIn(_ user: String) async throws -> Session {
        let name = user.addingPercentEncoding(withAllowedCharacters: .alphanumerics) ?? ""
        return try await session("grant_type=demo&user=\(name)")
    }

    func refresh(_ token: String) async throws -> Session {
        try await session("grant_type=refresh_token&refresh_token=\(token)")
    }

    /// Returns what the issuer says of the user, or nil if it does not accept the access token.
    func profile(_ accessToken: String) async throws -> String? {
        let response = try await send(Request("GET", "/profile", token: accessToken))
        switch response.status {
        case 200: return response.body
        case 401: return nil
        default: throw IssuerError.noAnswer
        }
    }

    private struct Answer: Decodable {
        let access_token: String
        let refresh_token: String
        let expires_in: Double
    }

    private func session(_ form: String) async throws -> Session {
        let asked = Date.now
        let response = try await send(Request("POST", "/token", body: form))
        if response.status == 400, response.body.contains("\"invalid_grant\"") { throw IssuerError.refused }
        guard response.status == 200,
            let answer = try? JSONDecoder().decode(Answer.self, from: Data(response.body.utf8))
        else { throw IssuerError.noAnswer }
        // Others use the old token while one instance refreshes it, and clocks differ.
        return Session(
            accessToken: answer.access_token,
            refreshAt: asked + answer.expires_in / 2,
            expires: asked + answer.expires_in * 3 / 4,
            refreshToken: answer.refresh_token
        )
    }

    private func send(_ request: Request) async throws -> Response {
        do { return try await exchange(request, port: port) } catch ExchangeError.notSent {
            throw IssuerError.notSent
        } catch { throw IssuerError.noAnswer }
    }
}
