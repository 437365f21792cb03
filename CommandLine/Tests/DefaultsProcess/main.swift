import Foundation

// A program with `UserDefaults`: sets what the property list on standard input has, and prints what is there then.
//
//     DefaultsProcess SUITE
//
// A process of its own, as Foundation reads the environment once, when the process starts.
let suite = CommandLine.arguments[1]
let input = FileHandle.standardInput.readDataToEndOfFile()
let values = try PropertyListSerialization.propertyList(from: input, format: nil) as? [String: Any]
guard let values, let defaults = UserDefaults(suiteName: suite) else { exit(64) }
for (key, value) in values { defaults.set(value, forKey: key) }
guard defaults.synchronize() else { exit(74) }
let stored = defaults.persistentDomain(forName: suite) ?? [:]
FileHandle.standardOutput.write(
    try PropertyListSerialization.data(fromPropertyList: stored, format: .binary, options: 0)
)
