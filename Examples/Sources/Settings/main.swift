// Settings with typed keys, and a property for each.
//
//     swift run Settings                       shows them
//     swift run Settings endpoint URL
//     swift run Settings attempts NUMBER
//     swift run Settings password              asks for it
//     swift run Settings reset

import Foundation
import Lockbox
import Terminal

extension LockboxKey<URL> {
    static var endpoint: Self { Self("endpoint", default: URL(string: "https://example.com")!) }
}

extension LockboxKey<Int> {
    static var attempts: Self { Self("attempts", default: 3) }
}

extension LockboxKey<String?> {
    static var password: Self {
        Self("password", accessibility: .whenUnlockedThisDeviceOnly, label: "Example")
    }
}

/// Each property reads its item when it is used. A locked or damaged item is an error, and never the default.
struct Settings {
    @LockboxItem var endpoint: Result<URL, any Error>
    @LockboxItem var attempts: Result<Int, any Error>
    @LockboxItem var password: Result<String?, any Error>

    init(_ lockbox: Lockbox) {
        _endpoint = LockboxItem(.endpoint, in: lockbox)
        _attempts = LockboxItem(.attempts, in: lockbox)
        _password = LockboxItem(.password, in: lockbox)
    }
}

Terminal.run { arguments in
    let lockbox = try Lockbox(keyPrefix: "com.example.settings")
    let settings = Settings(lockbox)
    switch (arguments.first, arguments.count) {
    case ("endpoint", 2):
        guard let url = URL(string: arguments[1]), url.scheme != nil else {
            throw Refusal("that is not a URL")
        }
        try settings.$endpoint.set(url)
    case ("attempts", 2):
        guard let number = Int(arguments[1]) else { throw Refusal("that is not a number") }
        try settings.$attempts.set(number)
    case ("password", 1): try settings.$password.set(Terminal.askWithoutEcho("Password: "))
    case ("reset", 1): try lockbox.removeAllObjects()
    case (nil, 0):
        print("endpoint: \(try settings.endpoint.get())")
        print("attempts: \(try settings.attempts.get())")
        print("password: \(try settings.password.get() == nil ? "none" : "set")")
    default: throw Refusal("usage: Settings [endpoint URL | attempts NUMBER | password | reset]")
    }
}
