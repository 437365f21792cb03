// An OAuth token that several server processes share, with one refresh at a time.
//
//     swift run SharedToken            prints whether it refreshed the token, or another process had
//
// Start it several times at once: one refreshes, the others wait and use its token.

import Foundation
import Lockbox

struct Token: Codable, Equatable, Sendable {
    var value: String
    var refreshed: Int
}

extension LockboxKey<Token?> {
    /// A service reads it after the machine was unlocked once.
    static var token: Self { Self("token", accessibility: .afterFirstUnlock) }
}

extension LockboxKey<String?> {
    /// The lease: who has made it may refresh. It expires, so that a process that was killed does not keep it.
    static var lease: Self { Self("lease", accessibility: .afterFirstUnlock, expires: .after(30)) }
}

struct TokenKeeper {
    let lockbox: Lockbox
    private let me = UUID().uuidString

    init(_ lockbox: Lockbox) { self.lockbox = lockbox }

    /// Returns a token that is valid for some time yet, and whether this process has refreshed it.
    func token(_ refresh: () async throws -> (Token, validFor: TimeInterval)) async throws
        -> (token: Token, isMine: Bool)
    {
        while true {
            // It has expired when it should be refreshed, some time before the server refuses it.
            if let token = try await lockbox.unarchiveObject(forKey: .token) { return (token, false) }
            do {
                try await lockbox.archiveObject(me, forKey: .lease, policy: .addOnly)
            } catch LockboxError.duplicateItem {
                try await Task.sleep(for: .milliseconds(20))  // another process refreshes
                continue
            }
            do {
                let token = try await refreshed(refresh)
                try await release()
                return token
            } catch {
                try? await release()
                throw error
            }
        }
    }

    private func refreshed(_ refresh: () async throws -> (Token, validFor: TimeInterval)) async throws
        -> (token: Token, isMine: Bool)
    {
        // Another process may have refreshed it, and released the lease, since this one has looked.
        if let token = try await lockbox.unarchiveObject(forKey: .token) { return (token, false) }
        let (token, validFor) = try await refresh()
        try await lockbox.archiveObject(token, forKey: .token, expires: .after(validFor))
        return (token, true)
    }

    /// Only this process's own lease: if the refresh took too long, another one has it now.
    private func release() async throws {
        try await lockbox.update(.lease) { [me] holder in if holder == me { holder = nil } }
    }
}

do {
    let lockbox = try Lockbox(keyPrefix: "com.example.shared-token")
    let (token, isMine) = try await TokenKeeper(lockbox).token {
        // Here the app asks its server, with a refresh token that it keeps under another key.
        try await Task.sleep(for: .milliseconds(200))
        let count = try await lockbox.update("refreshes", as: Int.self) { $0 = ($0 ?? 0) + 1 } ?? 0
        return (Token(value: UUID().uuidString, refreshed: count), validFor: 3600)
    }
    print("refresh \(token.refreshed), by \(isMine ? "this process" : "another process")")
} catch {
    FileHandle.standardError.write(Data("SharedToken: \(error)\n".utf8))
    exit(1)
}
