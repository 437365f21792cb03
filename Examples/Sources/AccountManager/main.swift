// Secrets by service and account, as the wrappers of SecItemAdd and SecItemUpdate keep them.
//
//     swift run AccountManager add github.com alice        asks for the secret; refuses an account that is there
//     swift run AccountManager change github.com alice     asks for the secret; refuses an account that is not there
//     swift run AccountManager get github.com alice
//     swift run AccountManager delete github.com alice
//     swift run AccountManager list
//
// The secret is read from standard input, without echo at a terminal. It is never an argument: those are shown to
// everybody by ps, and kept by the shell's history.

import Lockbox
import Terminal

/// The service is part of the prefix and the account is the key. Lockbox never joins the two, so service `a`, account
/// `b/c` and service `a/b`, account `c` are two accounts.
struct Accounts {
    private static let prefix = "com.example.accounts/"

    func add(_ secret: String, service: String, account: String) throws {
        try lockbox(service).archiveObject(secret, forKey: account, options: WriteOptions(policy: .addOnly))
    }

    func change(_ secret: String, service: String, account: String) throws {
        try lockbox(service).archiveObject(
            secret,
            forKey: account,
            options: WriteOptions(policy: .updateOnly)
        )
    }

    func secret(service: String, account: String) throws -> String? {
        try lockbox(service).unarchiveObject(forKey: account)
    }

    func delete(service: String, account: String) throws {
        try lockbox(service).removeObject(forKey: account)
    }

    func list() throws -> [(service: String, account: String)] {
        try EncryptedFileBackend.default.prefixes()
            .filter { $0.utf8.starts(with: Self.prefix.utf8) }
            .map { String($0.unicodeScalars.dropFirst(Self.prefix.unicodeScalars.count)) }.sorted()
            .flatMap { service in try lockbox(service).allKeys().sorted().map { (service, $0) } }
    }

    /// An empty account is refused by Lockbox: no key is empty.
    private func lockbox(_ service: String) throws -> Lockbox {
        if service.isEmpty { throw Refusal("the service is empty") }
        return try Lockbox(keyPrefix: Self.prefix + service)
    }
}

Terminal.run { arguments in
    let accounts = Accounts()
    switch (arguments.first, arguments.count) {
    case ("add", 3):
        let secret = try Terminal.askWithoutEcho("Secret: ")
        try accounts.add(secret, service: arguments[1], account: arguments[2])
    case ("change", 3):
        let secret = try Terminal.askWithoutEcho("Secret: ")
        try accounts.change(secret, service: arguments[1], account: arguments[2])
    case ("get", 3):
        guard let secret = try accounts.secret(service: arguments[1], account: arguments[2]) else {
            throw Refusal("there is no such account")
        }
        print(secret)
    case ("delete", 3):
        try accounts.delete(service: arguments[1], account: arguments[2])
    case ("list", 1):
        // Quoted: a name may hold whatever would confuse a terminal.
        for (service, account) in try accounts.list() { debugPrint(service, account) }
    default:
        throw Refusal("usage: AccountManager add|change|get|delete SERVICE ACCOUNT, or AccountManager list")
    }
}
