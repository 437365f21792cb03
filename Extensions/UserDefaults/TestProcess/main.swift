// The user defaults of this process's name, or of a suite; their file is in XDG_CONFIG_HOME. For UserDefaultsProcessTests.
//
//     set SUITE KEY VALUE             sets one, and writes the file; the suite "-" is the standard defaults
//     migrate SUITE DIRECTORY         migrates "token" and "list", and prints the report
//     dry-run SUITE DIRECTORY         prints what a migration would do
//     read-first SUITE DIRECTORY      reads a value, waits for the end of standard input, then migrates
//     set-after SUITE DIRECTORY       migrates, then sets the standard default "later"

import Foundation
import Lockbox
import LockboxUserDefaults

let arguments = Array(CommandLine.arguments.dropFirst())
let suite = arguments[1] == "-" ? nil : arguments[1]

// Opened before any migration only where that is what is tested.
func defaults() -> UserDefaults { suite.map { UserDefaults(suiteName: $0)! } ?? .standard }

func migrate(dryRun: Bool = false) throws {
    let backend = EncryptedFileBackend(directory: arguments[2])
    let lockbox = try Lockbox(keyPrefix: "com.example.process", backend: backend)
    let source = MigrationSource.userDefaults(suiteName: suite)
    let migration = Migration("from UserDefaults", from: source, .string("token"), .string("list"))
    let report = try lockbox.migrate(migration, dryRun: dryRun)
    for item in report.outcomes { print("\(item.key): \(item.outcome)") }
    print("complete: \(report.isComplete)")
}

switch arguments[0] {
case "set":
    defaults().set(arguments[3], forKey: arguments[2])
    defaults().synchronize()
case "migrate": try migrate()
case "dry-run": try migrate(dryRun: true)
case "read-first":
    print(defaults().string(forKey: "token") ?? "nothing")
    fflush(nil)
    while readLine() != nil {}
    try migrate()
case "set-after":
    try migrate()
    UserDefaults.standard.set("set after the migration", forKey: "later")
    UserDefaults.standard.synchronize()
default: exit(64)
}
