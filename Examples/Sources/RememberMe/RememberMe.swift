// A login form that remembers a password for seven days.
//
//     swift run RememberMe                                 asks for a user name and, if it must, for a password
//     swift run RememberMe --now 2026-12-24T12:00:00Z      as if it were that day
//     swift run RememberMe --forget                        forgets everybody
//
// From a terminal the password is read without echo; otherwise it is the second line of standard input.

import Foundation
import Lockbox
import Terminal

struct Login: Codable {
    var user: String
    var password: String
}

/// The whole use of Lockbox: the user name is the key, and the item expires by itself.
struct RememberedLogins {
    static let period: TimeInterval = 7 * 24 * 60 * 60

    let lockbox: Lockbox
    let now: Date

    init(now: Date) throws {
        self.now = now
        lockbox = try Lockbox(keyPrefix: "com.example.remember-me", now: { now })
    }

    func login(of user: String) throws -> Login? {
        try lockbox.unarchiveObject(Login.self, forKey: user)
    }

    func remember(_ login: Login) throws {
        try lockbox.archiveObject(
            login,
            forKey: login.user,
            options: WriteOptions(expires: .at(now + Self.period))
        )
    }

    func forgetEverybody() throws {
        try lockbox.removeAllObjects()
    }
}

@main struct RememberMe {
    static func main() { Terminal.run(run) }

    static func run(_ arguments: [String]) throws {
        switch arguments.first {
        case nil: try logIn(RememberedLogins(now: Date()))
        case "--now" where arguments.count == 2:
            try logIn(RememberedLogins(now: Date(arguments[1], strategy: .iso8601)))
        case "--forget": try RememberedLogins(now: Date()).forgetEverybody()
        default: throw Refusal("usage: RememberMe [--now 2026-12-24T12:00:00Z | --forget]")
        }
    }

    static func logIn(_ logins: RememberedLogins) throws {
        let user = try Terminal.ask("User name: ")
        if let login = try logins.login(of: user) {
            print("Password: •••••••• (filled in)")
            print("Welcome back, \(login.user).")
        } else {
            let password = try Terminal.askWithoutEcho("Password: ")
            try logins.remember(Login(user: user, password: password))
            print("Welcome, \(user). The password is filled in for seven days.")
        }
    }
}
