// A program's configuration in layers: the environment, then the secrets in Lockbox, then a file.
//
//     export CONFIG_FILE_PATH=settings.json         {"database": {"host": "db.example.com"}}
//     swift run Configured database.password …      says what it finds for each of these secrets, and shows none
//
// A layer that has no value passes the question on. A secret that is locked or damaged does not: its error ends the search, and
// no older value from the file takes its place.

import Configuration
import Foundation
import Lockbox
import LockboxConfiguration

/// `nil` means that no layer has a value, and nothing else.
func describe(_ key: ConfigKey, _ config: ConfigReader) async -> String {
    do {
        return try await config.fetchString(forKey: key) == nil ? "absent" : "a value"
    } catch LockboxError.interactionNotAllowed {
        return "locked: ask for the passcode"
    } catch {
        return "\(error)"
    }
}

do {
    let environment = EnvironmentVariablesProvider()
    let config = ConfigReader(providers: [
        environment,
        try await LockboxConfigProvider(Lockbox(keyPrefix: "com.example.configured")),
        try await FileProvider<JSONSnapshot>(
            config: ConfigReader(provider: environment).scoped(to: "config")
        ),
    ])
    print("database.host: \(try config.requiredString(forKey: "database.host"))")
    for name in CommandLine.arguments.dropFirst() {
        let key = ConfigKey(name)
        print("\(name): \(await describe(key, config))")
        // Cannot throw, so it cannot say why there is no value: not for secrets.
        print("    string(forKey:) gives \(config.string(forKey: key) == nil ? "nil" : "a value")")
        do { _ = try config.requiredString(forKey: key) } catch {
            print("    requiredString(forKey:) throws \(type(of: error))")
        }
    }
} catch {
    FileHandle.standardError.write(Data("Configured: \(error)\n".utf8))
    exit(1)
}
