import Foundation

/// The package's own sources, for tests that hold a list complete.
enum SourceText {
    private static let root = URL(fileURLWithPath: #filePath).appendingPathComponent("../../../..")
        .standardized

    /// - Parameter path: A file, from the package's root.
    static func file(_ path: String) throws -> String {
        try String(contentsOf: root.appendingPathComponent(path), encoding: .utf8)
    }

    /// Every Swift file below a folder, by its path from the package's root.
    static func files(under folder: String) throws -> [String: String] {
        let names = try FileManager.default.subpathsOfDirectory(
            atPath: root.appendingPathComponent(folder).path
        )
        return try Dictionary(
            uniqueKeysWithValues: names.filter { $0.hasSuffix(".swift") }.map {
                ("\(folder)/\($0)", try file("\(folder)/\($0)"))
            }
        )
    }
}
