import Foundation

/// Test data that is not ours, and so not in the repository: in the folder named by `LOCKBOX_TEST_DATA`, or else
/// in `../shared/data` beside the package.
enum TestData {
    case naughtyStrings, wycheproof, ageKit

    var isPresent: Bool { FileManager.default.fileExists(atPath: path) }

    /// The message of a skipped test.
    var absence: String {
        """
        skipped: there is no \(path). Get it from \(source) and name its folder in LOCKBOX_TEST_DATA.
        """
    }

    func load<Value: Decodable>(_ type: Value.Type) throws -> Value {
        try JSONDecoder().decode(type, from: Data(contentsOf: URL(fileURLWithPath: path)))
    }

    var path: String { "\(Self.folder)/\(fileName)" }

    private var fileName: String {
        switch self {
        case .naughtyStrings: "naughty-strings.json"
        case .wycheproof: "wycheproof-xchacha20-poly1305.json"
        case .ageKit: "age-testkit"
        }
    }

    private var source: String {
        switch self {
        case .naughtyStrings: "github.com/minimaxir/big-list-of-naughty-strings (blns.json)"
        case .wycheproof: "github.com/C2SP/wycheproof (testvectors_v1/xchacha20_poly1305_test.json)"
        case .ageKit: "github.com/C2SP/CCTV (age/testdata)"
        }
    }

    private static let folder =
        ProcessInfo.processInfo.environment["LOCKBOX_TEST_DATA"]
        ?? URL(fileURLWithPath: #filePath).appendingPathComponent("../../../../../../shared/data")
        .standardized
        .path
}
