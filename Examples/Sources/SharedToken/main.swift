// An OAuth token that several processes share, with one refresh at a time.
//
//     swift run SharedToken              prints whether it refreshed the token, or another process had
//     swift run SharedToken SECONDS      with a server that takes so long
//
// Start it several times at once: one refreshes, the others wait and use its token.

import Foundation
import Lockbox

struct Token: Codable {
    var value = ""
    var refreshes = 0
    /// Some time before the server refuses the token.
    var refreshAt = Date.distantPast
}

let seconds = CommandLine.arguments.dropFirst().first.flatMap(Double.init) ?? 0.2

do {
    let lockbox = try Lockbox(keyPrefix: "com.example.shared-token")
    // Signs in, unless another process has. A service reads it after the machine was unlocked once.
    do {
        let options = WriteOptions(accessibility: .afterFirstUnlock, policy: .addOnly)
        try lockbox.archiveObject(Token(), forKey: "token", options: options)
    } catch LockboxError.duplicateItem {}

    var isMine = false
    let token = try await lockbox.refreshed("token", as: Token.self, isFresh: { $0.refreshAt > .now }) {
        old in
        // Here the app asks its server, with the refresh token of the old value.
        try await Task.sleep(for: .seconds(seconds))
        isMine = true
        return Token(value: UUID().uuidString, refreshes: old.value.refreshes + 1, refreshAt: .now + 3600)
    }
    print("refresh \(token?.refreshes ?? 0), by \(isMine ? "this process" : "another process")")
} catch {
    FileHandle.standardError.write(Data("SharedToken: \(error)\n".utf8))
    exit(1)
}
