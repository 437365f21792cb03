import Foundation

/// Test data that is not ours, and so not in the repository: in the folder named by `LOCKBOX_TEST_DATA`, or else in
/// `../shared/data` beside the repository.
enum TestData {
    /// Nil, with a word about it, if the file is not there.
    static func naughtyStrings() throws -> [String]? {
        let path = "\(folder)/naughty-strings.json"
        guard FileManager.default.fileExists(atPath: path) else {
            print(
                "skipped: there is no \(path). Get it from github.com/minimaxir/big-list-of-naughty-strings (blns.json) and "
                    + "name its folder in LOCKBOX_TEST_DATA."
            )
            return nil
        }
        return try JSONDecoder().decode([String].self, from: Data(contentsOf: URL(fileURLWithPath: path)))
    }

    private static let folder =
        ProcessInfo.processInfo.environment["LOCKBOX_TEST_DATA"]
        ?? URL(fileURLWithPath: #filePath).appendingPathComponent("../../../../../../shared/data")
        .standardized.path
}
