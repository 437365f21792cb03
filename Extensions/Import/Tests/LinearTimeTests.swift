import Foundation
import Testing

@_spi(Extensions) @testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxImport
@testable import LockboxStore

/// Twice as many entries take at most three times as long: to parse, to read one by one, to remove, and to write to memory.
///
/// Counts the time of this thread only, because the machine may be busy.
@Suite(.serialized) struct LinearTimeTests: MigrationFixture {
    let store: TestStore
    let lockbox: Lockbox

    init() throws {
        store = try TestStore()
        lockbox = try store.lockbox()
    }

    /// Tries again a few times if the first took longer than allowed.
    private static func expect(
        _ what: String,
        _ slow: () throws -> Void,
        takesAtMost factor: Int,
        times fast: () throws -> Void,
        sourceLocation: SourceLocation = #_sourceLocation
    ) rethrows {
        var (slower, faster) = (try processorTime(slow), try processorTime(fast))
        for _ in 0..<5 where slower > faster * factor {
            // The pair is measured anew, because a processor may have become faster or slower.
            (faster, slower) = (try processorTime(fast), try processorTime(slow))
        }
        #expect(slower <= faster * factor, "\(what)", sourceLocation: sourceLocation)
    }

    private static func expectLinear(
        _ count: Int,
        _ what: String,
        sourceLocation: SourceLocation = #_sourceLocation,
        _ body: (Int) throws -> Void
    ) rethrows {
        try expect(
            what,
            { try body(2 * count) },
            takesAtMost: 3,
            times: { try body(count) },
            sourceLocation: sourceLocation
        )
    }

    private static func bytes(_ format: SourceFile.Format, _ count: Int) -> [UInt8] {
        let entries = (0..<count).map { number in
            switch format {
            case .environment: "NAME\(number)=value\n"
            case .json: "\(number == 0 ? "{" : ",")\"name \(number)\":1.5\(number == count - 1 ? "}" : "")"
            case .netrc: "machine m\(number) login l\n"
            case .propertyList: "<key>name \(number)</key><true/>\n"
            }
        }
        let text = entries.joined()
        return Array((format == .propertyList ? "<plist><dict>\(text)</dict></plist>" : text).utf8)
    }

    @Test(arguments: SourceFile.Format.allCases) func everyEntryOfAFile(_ format: SourceFile.Format) throws {
        try Self.expectLinear(4000, "\(format)") { count in
            try readAndRemove(Self.bytes(format, count), format, count)
        }
    }

    @Test func everyEntryOfABinaryPropertyList() throws {
        func bytes(_ count: Int) -> [UInt8] {
            typealias Node = PropertyListWriter.Node
            return PropertyListWriter.write(
                .dictionary((0..<count).map { (Node.ascii("name \($0)"), Node.ascii("value \($0)")) })
            )
        }
        try Self.expectLinear(4000, "binary") { try readAndRemove(bytes($0), .propertyList, $0) }
    }

    private func readAndRemove(_ bytes: [UInt8], _ format: SourceFile.Format, _ count: Int) throws {
        let path = try file("source", bytes)
        let source = try FileItems(path: path, format: format)
        var items: [String: SourceItem] = [:]
        for key in source.keys(unreadable: { _ in }) { items[key] = try source.item(forKey: key) }
        #expect(items.count == count)
        // Every other one, so that a part remains to be copied after each.
        let half = Dictionary(
            uniqueKeysWithValues: source.keys(unreadable: { _ in }).enumerated().compactMap { index, key in
                index.isMultiple(of: 2) ? (key, items[key]!) : nil
            }
        )
        #expect(try source.remove(half).isEmpty)
        #expect(try FileItems(path: path, format: format).keys(unreadable: { _ in }).count == count / 2)
    }

    @Test func aWholeMigration() throws {
        try Self.expectLinear(2000, "migration") { count in
            let path = try file("source.env", Self.bytes(.environment(.common), count))
            let lockbox = try InMemoryBackend().lockbox("p")
            let items = (0..<count).map { Migration.Item.string("NAME\($0)") }
            #expect(
                try lockbox.migrate(Migration("m", from: .environmentFile(at: path), items: items)).isComplete
            )
        }
    }

    @Test func batchesInMemory() throws {
        try Self.expectLinear(4000, "batches") { count in
            let lockbox = try InMemoryBackend().lockbox("p")
            for number in 0..<count { try lockbox.batch { try $0.archiveObject(1, forKey: "\(number)") } }
        }
    }

    /// A long text, many escapes and many numbers.
    @Test(arguments: [
        ("\"", "x", "\""), ("\"", "\\n", "\""), ("[0", ",1.5", "]"), ("[0", ",0.1234567890123456", "]"),
    ])
    func oneLargeValue(_ parts: (String, String, String)) throws {
        for format in [SourceFile.Format.json, .propertyList] {
            try Self.expectLinear(60_000, "\(format) of \(parts.1)") { count in
                let middle = String(repeating: parts.1, count: count)
                let text =
                    format == .json
                    ? "{\"A\":\(parts.0)\(middle)\(parts.2)}"
                    : "<plist><dict><key>A</key><string>\(middle)</string></dict></plist>"
                _ = try SourceFile(bytes: Array(text.utf8), format: format).value(forName: "A")
            }
        }
    }
}
