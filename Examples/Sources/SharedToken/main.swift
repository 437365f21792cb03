// An OAuth token that several server processes share, with one refresh at a time.
//
//     swift run SharedToken                   prints whether it refreshed the token, or another process had
//     swift run SharedToken SECONDS [LEASE]   with a server that takes so long, and a lease that ends after so many seconds
//
// Start it several times at once: one refreshes, the others wait and use its token.

import Foundation
import Lockbox

struct Token: Codable, Equatable, Sendable {
    var value: String
    var refreshed: Int
}

/// The token and the lease are one item, so a token is stored only by the process that holds the lease at that moment.
struct Shared: Codable, Sendable {
    private var token: Token?
    /// Some time before the server refuses the token.
    private var refreshAt = Date.distantPast
    /// The process that may refresh. The lease ends, so that a process that was killed does not keep it.
    private var holder: String?
    private var leaseEnds = Date.distantPast

    /// Another process holds the lease.
    struct IsLeased: Error {}

    /// Nil if the token should be refreshed.
    func token(at now: Date) -> Token? { refreshAt > now ? token : nil }

    mutating func lease(to me: String, for seconds: TimeInterval) throws {
        let now = Date()
        if token(at: now) != nil || holder != nil && leaseEnds > now { throw IsLeased() }
        holder = me
        leaseEnds = now + seconds
    }

    mutating func store(_ new: Token, validFor seconds: TimeInterval, by me: String) throws {
        try release(by: me)
        token = new
        refreshAt = Date() + seconds
    }

    /// Only this process's own lease: if the refresh took too long, another one has it now.
    mutating func release(by me: String) throws {
        if holder != me { throw IsLeased() }
        holder = nil
    }
}

extension LockboxKey<Shared> {
    /// A service reads it after the machine was unlocked once.
    static var shared: Self {
        Self("token and lease", default: Shared(), options: WriteOptions(accessibility: .afterFirstUnlock))
    }
}

struct TokenKeeper {
    let lockbox: Lockbox
    let lease: TimeInterval
    private let me = UUID().uuidString

    init(_ lockbox: Lockbox, lease: TimeInterval = 30) {
        self.lockbox = lockbox
        self.lease = lease
    }

    /// Returns a token that is valid for some time yet, and whether this process has refreshed it.
    func token(_ refresh: () async throws -> (Token, validFor: TimeInterval)) async throws
        -> (token: Token, isMine: Bool)
    {
        while true {
            // Without a write, while others wait too.
            if let token = try await lockbox.unarchiveObject(forKey: .shared).token(at: Date()) {
                return (token, false)
            }
            do {
                // Whoever throws leaves the item as it is.
                try await lockbox.update(.shared) { [me, lease] in try $0.lease(to: me, for: lease) }
                return (try await refreshed(refresh), true)
            } catch is Shared.IsLeased {
                try await Task.sleep(for: .milliseconds(20))  // another process refreshes
            }
        }
    }

    private func refreshed(_ refresh: () async throws -> (Token, validFor: TimeInterval)) async throws
        -> Token
    {
        do {
            let (token, validFor) = try await refresh()
            try await lockbox.update(.shared) { [me] in try $0.store(token, validFor: validFor, by: me) }
            return token
        } catch let error where !(error is Shared.IsLeased) {
            _ = try? await lockbox.update(.shared) { [me] in try $0.release(by: me) }
            throw error
        }
    }
}

do {
    let seconds = CommandLine.arguments.dropFirst().compactMap(TimeInterval.init)
    let lockbox = try Lockbox(keyPrefix: "com.example.shared-token")
    let keeper = TokenKeeper(lockbox, lease: seconds.count > 1 ? seconds[1] : 30)
    let (token, isMine) = try await keeper.token {
        // Here the app asks its server, with a refresh token that it keeps under another key.
        try await Task.sleep(for: .seconds(seconds.first ?? 0.2))
        let count = try await lockbox.update("refreshes", as: Int.self) { $0 = ($0 ?? 0) + 1 } ?? 0
        return (Token(value: UUID().uuidString, refreshed: count), validFor: 3600)
    }
    print("refresh \(token.refreshed), by \(isMine ? "this process" : "another process")")
} catch {
    FileHandle.standardError.write(Data("SharedToken: \(error)\n".utf8))
    exit(1)
}
