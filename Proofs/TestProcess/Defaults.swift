import Foundation

@testable import Lockbox
import LockboxUserDefaults
@testable import LockboxCore
@testable import LockboxStore

/// The user defaults of this process's name, or of a suite; their file is in `XDG_CONFIG_HOME`.
///
///     set SUITE KEY VALUE             sets one, and writes the file; the suite "-" is the standard defaults
///     migrate SUITE DIRECTORY         migrates "token" and "list", and prints the report
///     dry-run SUITE DIRECTORY         prints what a migration would do
///     read-first SUITE DIRECTORY      reads a value, waits for the end of standard input, then migrates
///     set-after SUITE DIRECTORY       migrates, then sets the standard default "later"
func runDefaults(_ arguments: [String]) throws {
    let suite = arguments[1] == "-" ? nil : arguments[1]
    // Opened before any migration only where that is what is tested.
    func defaults() -> UserDefaults { suite.map { UserDefaults(suiteName: $0)! } ?? .standard }
    switch arguments[0] {
    case "set":
        defaults().set(arguments[3], forKey: arguments[2])
        defaults().synchronize()
    case "migrate": try migrateDefaults(suite, arguments[2])
    case "dry-run": try migrateDefaults(suite, arguments[2], dryRun: true)
    case "read-first":
        print(defaults().string(forKey: "token") ?? "nothing")
        fflush(nil)
        waitForEndOfInput()
        try migrateDefaults(suite, arguments[2])
    case "set-after":
        try migrateDefaults(suite, arguments[2])
        UserDefaults.standard.set("set after the migration", forKey: "later")
        UserDefaults.standard.synchronize()
    default: exit(64)
    }
}

private func migrateDefaults(_ suite: String?, _ directory: String, dryRun: Bool = false) throws {
    let lockbox = try lockbox(directory)
    let source = MigrationSource.userDefaults(suiteName: suite)
    let migration = Migration("from UserDefaults", from: source, .string("token"), .string("list"))
    let report = try lockbox.migrate(migration, dryRun: dryRun)
    for item in report.outcomes { print("\(item.key): \(item.outcome)") }
    print("complete: \(report.isComplete)")
}
