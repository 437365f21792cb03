import Foundation

@_spi(Extensions) @testable import Lockbox
@testable import LockboxCore

/// A file of `NAME=value` lines as a source that is no backend, like those of extensions.
struct LinesFile: SourceItems {
    private let path: String
    private let lines: [(key: String, value: String)]

    init(path: String) throws {
        self.path = path
        let text = FileManager.default.contents(atPath: path) ?? Data()
        lines = try String(decoding: text, as: UTF8.self).split(separator: "\n").map { line in
            let parts = line.split(separator: "=", maxSplits: 1).map(String.init)
            guard parts.count == 2 else {
                throw LockboxError.sourceRefused(path: path, reason: "a line has no =")
            }
            return (parts[0], parts[1])
        }
    }

    func keys(unreadable: (UnreadableItem) throws -> Void) -> [String] { lines.map(\.key) }

    func holds(_ key: String) -> Bool { lines.contains { $0.key == key } }

    func item(forKey key: String) -> SourceItem? {
        lines.first { $0.key == key }.map { SourceItem(.bytes(Data($0.value.utf8), isOwn: false)) }
    }

    func remove(_ items: [String: SourceItem]) throws -> Set<String> {
        let rest = lines.filter { items[$0.key] == nil }.map { "\($0.key)=\($0.value)\n" }
        try overwrite(path, Array(rest.joined().utf8))
        return []
    }
}

extension MigrationSource {
    static func lines(at path: String) -> MigrationSource {
        MigrationSource { _ in try LinesFile(path: path) }
    }
}
