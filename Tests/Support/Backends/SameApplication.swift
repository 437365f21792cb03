import Foundation
import Testing

import Lockbox

/// A program that knows nothing of its backend. The tests of every backend run it; LockboxEtcdTests has a link to this file.
enum SameApplication {
    private struct Account: Codable, Equatable {
        var name: String
        var attempts: Int
    }

    static func run(on backend: some LockboxBackend) throws {
        let lockbox = try backend.lockbox("com.example.app")
        let alice = Account(name: "alice", attempts: 0)
        try lockbox.archiveObject(
            alice,
            forKey: "account",
            options: WriteOptions(label: "Web shop", policy: .addOnly)
        )
        #expect(throws: LockboxError.duplicateItem(key: "account")) {
            try lockbox.archiveObject(alice, forKey: "account", options: WriteOptions(policy: .addOnly))
        }
        try lockbox.update("account", as: Account.self) { $0?.attempts += 1 }
        #expect(try lockbox.unarchiveObject(forKey: "account") == Account(name: "alice", attempts: 1))
        #expect(try lockbox.attributes(forKey: "account")?.label == "Web shop")

        let password = InternetPassword(server: "example.com", account: "alice", protocol: "https")
        try lockbox.archiveObject(Data("hunter2".utf8), forKey: password.key)
        let found = try lockbox.list(matching: ["server": "example.com"])
        #expect(
            found.items.values.compactMap(InternetPassword.init) == [password] && found.unreadable.isEmpty
        )

        try lockbox.archiveObject(
            "t0ken",
            forKey: "token",
            options: WriteOptions(accessibility: .afterFirstUnlock, expires: .after(60))
        )
        try lockbox.archiveObject("t0ken", forKey: "past", options: WriteOptions(expires: .at(.distantPast)))
        #expect(try lockbox.unarchiveObject(String.self, forKey: "past") == nil)
        try lockbox.moveObject(forKey: "token", toKey: "moved")
        #expect(try lockbox.unarchiveObject(forKey: "moved") == "t0ken")
        try lockbox.batch { batch in
            try batch.archiveObject(1, forKey: "one")
            try batch.removeObject(forKey: "moved")
        }
        #expect(try Set(lockbox.allKeys()) == ["account", password.key.name, "one"])
        try lockbox.removeAllObjects()
        #expect(try lockbox.allKeys().isEmpty)
    }
}
