// Settings with typed keys. A locked or damaged item is an error, and never the default.
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
        Self("password", options: WriteOptions(accessibility: .whenUnlockedThisDeviceOnly, label: "Example"))
    }
}

Terminal.run { arguments in
    let lockbox = try Lockbox(keyPrefix: "com.example.settings")
    switch (arguments.first, arguments.count) {
    case ("endpoint", 2):
        guard let url = URL(string: arguments[1]), url.scheme != nil else {
            throw Refusal("that is not a URL")
        }
        try lockbox.archiveObject(url, forKey: .endpoint)
    case ("attempts", 2):
        guard let number = Int(arguments[1]) else { throw Refusal("that is not a number") }
        try lockbox.archiveObject(number, forKey: .attempts)
    case ("password", 1): try lockbox.archiveObject(Terminal.askWithoutEcho("Password: "), forKey: .password)
    case ("reset", 1): try lockbox.removeAllObjects()
    case (nil, 0):
        print("endpoint: \(try lockbox[.endpoint])")
        print("attempts: \(try lockbox[.attempts])")
        print("password: \(try lockbox[.password] == nil ? "none" : "set")")
    default: throw Refusal("usage: Settings [endpoint URL | attempts NUMBER | password | reset]")
    }
}
