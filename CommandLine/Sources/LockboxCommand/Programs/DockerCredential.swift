import ArgumentParser
import Lockbox

struct DockerCredentialCommand: Command {
    static let help: CommandHelp = """
        docker-credential: Store Docker's passwords: a credential helper.

        Docker runs it under the name docker-credential-lockbox, and reads errors from standard output. \
        The items are internet passwords, which git and apps can use too: their prefix is \
        internet-passwords. It never asks for a passcode.

        Example: "credsStore": "lockbox" in ~/.docker/config.json
        """

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
        let store = try options.choice.store(prefix: InternetPassword.sharedPrefix, asks: false, for: .making)
        try store.unlockIfGiven()
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

    /// Docker fails on any other exit status than 0, so items that cannot be read are only named.
    private func list(_ store: Store) throws {
        let (found, unreadable) = try store.internetPasswords(at: Date()) { _ in true }
        let users = found.compactMap { item in item.dockerServer.map { ($0, item.password.account) } }
        try Output.json(Dictionary(users) { newest, _ in newest }, isPretty: false)
        unreadable.note()
    }

    /// Docker has one account for each server, so another one that it has stored goes.
    private func keep(_ store: Store) throws {
        guard let credentials = try? JSONDecoder().decode(Credentials.self, from: Input.all()) else {
            throw Failure(.usage, "the credentials are not the JSON that Docker sends")
        }
        let server = try Self.server(credentials.ServerURL ?? "")
        let user = try Self.required(credentials.Username, "username")
        if user.hasControlCharacters {
            throw Failure(.usage, "the credentials username has a control character")
        }
        // Docker asks again until it has a password.
        let secret = try Self.required(credentials.Secret, "secret")
        let password = Self.password(server, user)
        let others = try Self.found(server, nil, store).filter {
            $0.dockerServer != nil && $0.key.key != password.key.name
        }
        try store.unlocking {
            // Others may have added attributes. They stay.
            var attributes = try store.stored(password, at: nil).attributes?.searchable ?? [:]
            attributes.merge(password.searchable) { $1 }
            attributes[Store.Found.dockerServer] = server
            let options = WriteOptions(attributes: .set(attributes))
            try store.lockbox.batch {
                try $0.archiveObject(Data(secret.utf8), forKey: password.key.name, options: options)
                for other in others { try $0.removeObject(forKey: other.key.key) }
            }
        }
    }

    private func get(_ store: Store) throws {
        let server = try Self.server()
        let found = try Self.found(server, Date(), store)
        guard let item = found.first(where: { $0.dockerServer != nil }) ?? found.first,
            let opened = try store.unlocking({ try store.open(item) })
        else {
            throw Failure(.noSuchItem, "credentials not found in native keychain")
        }
        guard let text = String(validating: try opened.value.plain(item.key.key), as: UTF8.self) else {
            throw Failure(.damaged, "the password is not UTF-8, which Docker needs")
        }
        let answer = Credentials(ServerURL: server, Username: item.password.account, Secret: text)
        try Output.json(answer, isPretty: false)
    }

    /// The password that Docker has stored goes, also for git and apps. If it has stored nothing, the server's other passwords go,
    /// which Docker would use. Then Docker's own may be one that cannot be read, and is not gone.
    private func erase(_ store: Store) throws {
        let (found, unreadable) = try Self.accounts(Self.server(), nil, store)
        let mine = found.filter { $0.dockerServer != nil }
        try store.lockbox.batch {
            for item in mine.isEmpty ? found : mine {
                try $0.removeObject(forKey: item.key.key)
                let token = item.password.with(authenticationType: InternetPassword.refreshToken)
                try $0.removeObject(forKey: token.key)
            }
        }
        if mine.isEmpty { try unreadable.fail(in: store) }
    }

    /// Returns the accounts of a server, the newest first. If there is none, names the items that cannot be read:
    /// any of them may be the one that was asked for. Docker reads nothing but the first line.
    private static func found(_ server: String, _ now: Date?, _ store: Store) throws -> [Store.Found] {
        let (found, unreadable) = try accounts(server, now, store)
        if found.isEmpty { unreadable.note() }
        return found
    }

    private static func accounts(_ server: String, _ now: Date?, _ store: Store) throws -> Store.PasswordList
    {
        let wanted = password(server, "").key.name
        return try store.internetPasswords(at: now) {
            $0.url(path: $0.path) == wanted && $0.authenticationType == nil
        }
    }

    /// Parses a server as Docker spells it: `https` is Docker's own default.
    private static func password(_ text: String, _ account: String) -> InternetPassword {
        let parts = text.wholeMatch(of: /(?:(.*?):\/\/)?([^\/]*)(?:\/(.*))?/.dotMatchesNewlines())!
        let (server, port) = InternetPassword.serverAndPort(String(parts.2))
        return InternetPassword(
            server: server,
            account: account,
            protocol: parts.1.map(String.init) ?? "https",
            port: port,
            path: parts.3.map(String.init)
        )
    }

    private static func server(_ text: String? = nil) throws -> String {
        guard let text = try text ?? String(validating: Input.all(), as: UTF8.self) else {
            throw Failure(.usage, "the server URL is not UTF-8")
        }
        return try required(text.trimmingWhitespace, "server URL")
    }

    private static func required(_ text: String?, _ name: String) throws -> String {
        guard let text, !text.isEmpty else { throw Failure(.usage, "no credentials \(name)") }
        return text
    }

}

extension Store.Found {
    /// The attribute that has the server as Docker spells it. Docker lists only the servers that it has stored:
    /// it may send all of them to a builder.
    fileprivate static let dockerServer = "dockerServerURL"

    fileprivate var dockerServer: String? { attributes.searchable[Self.dockerServer] }
}
