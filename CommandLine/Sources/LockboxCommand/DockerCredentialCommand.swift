import ArgumentParser
import Lockbox

struct DockerCredentialCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "docker-credential",
        abstract: "Store Docker's passwords: a credential helper.",
        discussion: """
            Docker runs it under the name docker-credential-lockbox, and reads errors from standard output. \
            The items have the prefix docker. It never asks for a passcode.

            Example: echo '{"credsStore": "lockbox"}' > ~/.docker/config.json
            """
    )

    static let helperName = "docker-credential-lockbox"

    @Argument(help: "store, get, erase, list or version.")
    var action: String

    @OptionGroup var options: StoreOptions

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
        let store = try options.choice.store(prefix: "docker", asks: false)
        switch action {
        case "store": try keep(store)
        case "get": try get(store)
        case "erase": try store.lockbox.removeObject(forKey: server())
        // The server names are labels, which can be read while the store is locked.
        case "list": try list(store)
        case "version":
            try Output.line("\(Self.helperName) (lockbox) \(LockboxCommand.configuration.version)")
        default: throw Failure(.usage, "Unknown credential action `\(action)`")
        }
    }

    /// Docker fails on any other exit status than 0, so items that cannot be read are only named.
    private func list(_ store: Store) throws {
        let list = try store.lockbox.list()
        try print(list.items.compactMapValues(\.label))
        Unreadable(list.unreadable).note()
    }

    private func keep(_ store: Store) throws {
        guard let credentials = try? JSONDecoder().decode(Credentials.self, from: Input.all()) else {
            throw Failure(.usage, "the credentials are not the JSON that Docker sends")
        }
        let server = try Self.server(credentials.ServerURL ?? "")
        guard let user = credentials.Username, !user.isEmpty else {
            throw Failure(.usage, "no credentials username")
        }
        // Docker asks again until it has a password.
        guard let secret = credentials.Secret, !secret.isEmpty else {
            throw Failure(.usage, "no credentials secret")
        }
        try store.unlocking {
            let value = Credentials(Username: user, Secret: secret)
            try store.lockbox.archiveObject(value, forKey: server, label: .set(user))
        }
    }

    private func get(_ store: Store) throws {
        let server = try server()
        let found = try store.unlocking {
            try store.lockbox.unarchiveObject(Credentials.self, forKey: server)
        }
        guard var credentials = found else {
            throw Failure(.noSuchItem, "credentials not found in native keychain")
        }
        credentials.ServerURL = server
        try print(credentials)
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
