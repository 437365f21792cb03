import ArgumentParser
import Lockbox

struct DockerCredentialCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "docker-credential",
        abstract: "Store Docker's passwords: a credential helper.",
        discussion: """
            Docker runs it under the name docker-credential-lockbox, and reads errors from standard output. \
            The items are internet passwords, which git and apps can use too: their prefix is \
            internet-passwords. It never asks for a passcode.

            Example: "credsStore": "lockbox" in ~/.docker/config.json
            """
    )

    static let helperName = "docker-credential-lockbox"

    @Argument(help: "store, get, erase, list or version.")
    var action: String

    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    /// Spelled as Docker does.
    private struct Credentials: Codable {
        var ServerURL: String?
        var Username: String?
        var Secret: String?
    }

    /// Whether Docker started the command, even if its other arguments are invalid.
    static var isRunning: Bool {
        let arguments = CommandLine.arguments
        return arguments.first?.split(separator: "/").last == Substring(helperName)
            || arguments.dropFirst().first == configuration.commandName
    }

    /// Docker reads errors from standard output, and knows only one exit status.
    static func leave(with failure: Failure) -> Never {
        try? Output.line(failure.message.onOneLine)
        endProcess(1)
    }

    func run() throws {
        let store = try options.choice.store(prefix: InternetPassword.sharedPrefix, asks: false)
        switch action {
        case "store": try keep(store)
        case "get": try get(store)
        case "erase": try erase(store)
        // The server names are attributes, which can be read while the store is locked.
        case "list": try list(store)
        case "version":
            try Output.line("\(Self.helperName) (lockbox) \(LockboxCommand.configuration.version)")
        default: throw Failure(.usage, "Unknown credential action `\(action)`")
        }
    }

    /// The attribute that has the server as Docker spells it. Docker lists only the servers that it has stored:
    /// it may send all of them to a builder.
    private static let serverURL = "dockerServerURL"

    /// Docker fails on any other exit status than 0, so items that cannot be read are only named.
    private func list(_ store: Store) throws {
        let list = try store.lockbox.list()
        var users: [String: String] = [:]
        for item in list.items.values.sorted(by: { $0.modified < $1.modified }) {
            guard let server = item.searchable[Self.serverURL], let password = InternetPassword(item) else {
                continue
            }
            users[server] = password.account
        }
        try print(users)
        Unreadable(list.unreadable).note()
    }

    /// Docker has one account for each server, so another one that it has stored goes.
    private func keep(_ store: Store) throws {
        guard let credentials = try? JSONDecoder().decode(Credentials.self, from: Input.all()) else {
            throw Failure(.usage, "the credentials are not the JSON that Docker sends")
        }
        let server = try Self.server(credentials.ServerURL ?? "")
        guard let user = credentials.Username, !user.isEmpty else {
            throw Failure(.usage, "no credentials username")
        }
        // git's protocol has one line for each part.
        if user.unicodeScalars.contains(where: { $0.value < 0x20 || $0.value == 0x7F }) {
            throw Failure(.usage, "the credentials username has a control character")
        }
        // Docker asks again until it has a password.
        guard let secret = credentials.Secret, !secret.isEmpty else {
            throw Failure(.usage, "no credentials secret")
        }
        let password = Self.password(server, user)
        let found = try found(server, nil, store)
        let others = found.filter {
            $0.attributes.searchable[Self.serverURL] != nil && $0.key.key != password.key.name
        }
        try store.unlocking {
            let old = try store.searchable(of: password)
            let attributes = old.merging(password.searchable) { $1 }.merging([Self.serverURL: server]) { $1 }
            try store.lockbox.batch {
                try $0.archiveObject(
                    Data(secret.utf8),
                    forKey: password.key.name,
                    options: WriteOptions(attributes: .set(attributes))
                )
                for other in others { try $0.removeObject(forKey: other.key.key) }
            }
        }
    }

    private func get(_ store: Store) throws {
        let server = try server()
        let found = try found(server, Date(), store)
        let mine = found.first { $0.attributes.searchable[Self.serverURL] != nil }
        guard let item = mine ?? found.first,
            let opened = try store.unlocking({ try store.open(item, Date()) })
        else {
            throw Failure(.noSuchItem, "credentials not found in native keychain")
        }
        guard let text = String(validating: try opened.value.plain(item.key.key), as: UTF8.self) else {
            throw Failure(.damaged, "the password is not UTF-8, which Docker needs")
        }
        try print(Credentials(ServerURL: server, Username: item.password.account, Secret: text))
    }

    /// The password that Docker has stored goes, also for git and apps. If it has stored nothing, the server's other passwords go,
    /// which Docker would use. Then Docker's own may be one that cannot be read, and is not gone.
    private func erase(_ store: Store) throws {
        var unreadable = Unreadable()
        let found = try found(server(), nil, store, &unreadable)
        let mine = found.filter { $0.attributes.searchable[Self.serverURL] != nil }
        try store.lockbox.batch {
            for item in mine.isEmpty ? found : mine {
                try $0.removeObject(forKey: item.key.key)
                try $0.removeObject(
                    forKey: item.password.with(authenticationType: InternetPassword.refreshToken).key
                )
            }
        }
        if mine.isEmpty { try unreadable.fail(in: store) }
    }

    /// Returns the accounts of a server, the newest first. If there is none, names the items that cannot be read:
    /// any of them may be the one that was asked for. Docker reads nothing but the first line.
    private func found(_ server: String, _ now: Date?, _ store: Store) throws -> [Store.Found] {
        var unreadable = Unreadable()
        let found = try found(server, now, store, &unreadable)
        if found.isEmpty { unreadable.note() }
        return found
    }

    private func found(_ server: String, _ now: Date?, _ store: Store, _ unreadable: inout Unreadable) throws
        -> [Store.Found]
    {
        let wanted = Self.password(server, "")
        return try store.internetPasswords(at: now, &unreadable) {
            wanted.server.isSame(as: $0.server) && $0.port == wanted.port && wanted.path.isSame(as: $0.path)
                && wanted.protocol.isSame(as: $0.protocol) && $0.authenticationType == nil
        }
    }

    /// Parses a server as Docker spells it: `https` is Docker's own default.
    private static func password(_ text: String, _ account: String) -> InternetPassword {
        let scheme = text.firstRange(of: "://")
        let rest = text[(scheme?.upperBound ?? text.startIndex)...]
        let slash = rest.firstIndex(of: "/")
        let (server, port) = InternetPassword.serverAndPort(String(rest[..<(slash ?? rest.endIndex)]))
        return InternetPassword(
            server: server,
            account: account,
            protocol: scheme.map { String(text[..<$0.lowerBound]) } ?? "https",
            port: port,
            path: slash.map { String(rest[rest.index(after: $0)...]) }
        )
    }

    private func server() throws -> String {
        guard let text = String(validating: try Input.all(), as: UTF8.self) else {
            throw Failure(.usage, "the server URL is not UTF-8")
        }
        return try Self.server(text)
    }

    private static func server(_ text: String) throws -> String {
        let server = text.trimmingWhitespace
        if server.isEmpty { throw Failure(.usage, "no credentials server URL") }
        return server
    }

    private func print<Value: Encodable>(_ value: Value) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        try Output.bytes(encoder.encode(value) + Data("\n".utf8))
    }
}

extension Store {
    /// The attributes that others have added, as git's helper does. None if the item is damaged: it will be replaced.
    fileprivate func searchable(of password: InternetPassword) throws -> [String: String] {
        do { return try item(password, nil)?.attributes.searchable ?? [:] } catch let error as LockboxError
            where error.code == .corrupt || error.code == .authenticationFailed
        { return [:] }
    }
}
