// Two apps with a prefix of their own each, and one that they share: an access group.
//
//     swift run SharedGroup mail keep draft          asks for a value that is this app's own
//     swift run SharedGroup mail share session       asks for a value that both apps see
//     swift run SharedGroup calendar show session    prints what calendar sees under that key
//     swift run SharedGroup calendar list            prints the keys that calendar sees
//
// Prefixes keep programs of one user out of each other's way. They do not keep a hostile one out: it can open any
// prefix. Programs that must not read each other's secrets run as different users.

import Lockbox
import Terminal

struct App {
    let own: Lockbox
    let group: Lockbox

    init(name: String) throws {
        own = try Lockbox(keyPrefix: "com.example.\(name)")
        group = try Lockbox(keyPrefix: "com.example.group.office")
    }

    func value(_ key: String) throws -> String? {
        try own.unarchiveObject(forKey: key) ?? group.unarchiveObject(forKey: key)
    }
}

Terminal.run { arguments in
    guard let name = arguments.first, ["mail", "calendar"].contains(name) else {
        throw Refusal("usage: SharedGroup mail|calendar keep KEY | share KEY | show KEY | list")
    }
    let app = try App(name: name)
    switch (arguments.dropFirst().first, arguments.count) {
    case ("keep", 3): try app.own.archiveObject(Terminal.askWithoutEcho("Value: "), forKey: arguments[2])
    case ("share", 3): try app.group.archiveObject(Terminal.askWithoutEcho("Value: "), forKey: arguments[2])
    case ("show", 3):
        guard let value = try app.value(arguments[2]) else { throw Refusal("\(name) sees no such item") }
        print(value)
    case ("list", 2):
        for key in try app.own.allKeys().sorted() { print("own", key) }
        for key in try app.group.allKeys().sorted() { print("shared", key) }
    default: throw Refusal("usage: SharedGroup mail|calendar keep KEY | share KEY | show KEY | list")
    }
}
