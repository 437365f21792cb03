import LockboxCore
import LockboxPlatform

/// A file in which programs store secrets unencrypted. Reads its named values and removes some of them.
struct SourceFile: Undescribed {
    enum Format: CaseIterable, Sendable {
        /// A dictionary, binary or XML.
        case propertyList
        /// An object.
        case json
        /// `NAME=value` lines: see ``EnvironmentText``.
        case environment
        /// Machines with logins: see ``NetrcText``.
        case netrc
    }

    /// A named value in a text file.
    struct Entry {
        let name: String
        let value: Result<PropertyValue, SourceError>
        /// The bytes to delete to remove the entry.
        let range: Range<Int>
    }

    private enum Content {
        case text([Entry])
        case binary(BinaryPropertyList, [String: BinaryPropertyList.Reference])
    }

    /// The names in the order of the file.
    let names: [String]

    let bytes: [UInt8]
    private let format: Format
    private let content: Content

    /// - Throws: ``SourceError``, also if two entries have the same name.
    init(bytes: [UInt8], format: Format) throws(SourceError) {
        guard bytes.count <= BinaryPropertyList.maximumSize else { throw .tooLarge }
        (self.bytes, self.format) = (bytes, format)
        if format == .propertyList, bytes.starts(with: "bplist".utf8) {
            let list = try BinaryPropertyList(bytes)
            let entries = try list.entries()
            names = entries.map(\.name)
            content = .binary(list, Dictionary(entries.map { ($0.name, $0.value) }) { first, _ in first })
        } else {
            guard String(validating: bytes, as: UTF8.self) != nil else { throw .notUTF8 }
            guard !bytes.contains(0) else { throw .malformed("it contains a zero byte") }
            let entries = try Self.entries(bytes, format)
            names = entries.map(\.name)
            content = .text(entries)
        }
        guard Set(names).count == names.count else {
            throw .malformed("two of its entries have the same name")
        }
    }

    private static func entries(_ bytes: [UInt8], _ format: Format) throws(SourceError) -> [Entry] {
        switch format {
        case .propertyList: try XMLPropertyList.entries(bytes)
        case .json: try JSONText.entries(bytes)
        case .environment: try EnvironmentText.entries(bytes)
        case .netrc: try NetrcText.entries(bytes)
        }
    }

    /// - Throws: ``SourceError/noSuchKey`` if there is no such entry, or another ``SourceError``.
    func value(forName name: String) throws(SourceError) -> PropertyValue {
        switch content {
        case .text(let entries):
            guard let entry = entries.first(where: { $0.name == name }) else { throw .noSuchKey }
            return try entry.value.get()
        case .binary(let list, let references):
            guard let reference = references[name] else { throw .noSuchKey }
            return try list.value(reference, Unfolding(size: bytes.count))
        }
    }

    /// Returns the file without some entries. Names that do not occur are ignored. The rest of a text file,
    /// including comments, is kept byte for byte. A binary property list is rewritten, with all other objects
    /// unchanged.
    func removing(_ names: Set<String>) throws(SourceError) -> [UInt8] {
        guard !names.isDisjoint(with: self.names) else { return bytes }
        switch content {
        case .binary(let list, _): return try list.removing(names)
        case .text(let entries):
            let isRemoved = entries.map { names.contains($0.name) }
            var ranges = entries.indices.filter { isRemoved[$0] }.map { entries[$0].range }
            if format == .json { ranges = JSONText.cuts(entries.map(\.range), isRemoved) }
            var rest: [UInt8] = []
            var position = 0
            for range in ranges {
                rest += bytes[position..<range.lowerBound]
                position = range.upperBound
            }
            return rest + bytes[position...]
        }
    }
}
