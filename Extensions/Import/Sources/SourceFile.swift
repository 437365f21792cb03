import LockboxPlatform

/// A file in which programs store secrets unencrypted. Reads its named values and removes some of them.
struct SourceFile: Unprinted {
    enum Format: Hashable, Sendable {
        /// A dictionary, binary or XML.
        case propertyList
        /// An object.
        case json
        /// `NAME=value` lines: see ``EnvironmentText``.
        case environment(EnvironmentDialect)
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
        case text([Entry], utf8: [UInt8])
        case binary(BinaryPropertyList, [BinaryPropertyList.Reference])
    }

    /// The names in the order of the file.
    let names: [String]

    let bytes: [UInt8]
    private let format: Format
    private let encoding: XMLEncoding
    private let content: Content
    /// The positions of the names.
    private let index: [String: Int]

    /// - Throws: ``SourceError``, also if two entries have the same name.
    init(bytes: [UInt8], format: Format) throws(SourceError) {
        guard bytes.count <= BinaryPropertyList.maximumSize else { throw .tooLarge }
        (self.bytes, self.format) = (bytes, format)
        if format == .propertyList, bytes.starts(with: "bplist".utf8) {
            let list = try BinaryPropertyList(bytes)
            let entries = try list.entries()
            names = entries.map(\.name)
            content = .binary(list, entries.map(\.value))
            encoding = .utf8
        } else {
            encoding = format == .propertyList ? XMLEncoding(of: bytes) : .utf8
            let text = try encoding.utf8(of: bytes)
            let entries = try Self.entries(text, format, encoding)
            names = entries.map(\.name)
            content = .text(entries, utf8: text)
        }
        index = Dictionary(names.enumerated().map { ($1, $0) }) { first, _ in first }
        guard index.count == names.count else {
            throw .malformed("two of its entries have the same name")
        }
    }

    private static func entries(
        _ bytes: [UInt8],
        _ format: Format,
        _ encoding: XMLEncoding
    ) throws(SourceError) -> [Entry] {
        switch format {
        case .propertyList: try XMLPropertyList.entries(bytes, encoding)
        case .json: try JSONText.entries(bytes)
        case .environment(let dialect): try EnvironmentText.entries(bytes, dialect)
        case .netrc: try NetrcText.entries(bytes)
        }
    }

    func contains(_ name: String) -> Bool { index[name] != nil }

    /// - Throws: ``SourceError/noSuchKey`` if there is no such entry, or another ``SourceError``.
    func value(forName name: String) throws(SourceError) -> PropertyValue {
        guard let position = index[name] else { throw .noSuchKey }
        switch content {
        case .text(let entries, _): return try entries[position].value.get()
        case .binary(let list, let references):
            return try list.value(references[position], Unfolding(size: bytes.count))
        }
    }

    /// Returns the file without some entries. Names that do not occur are ignored. The rest of a text file,
    /// including comments, is kept byte for byte. A binary property list is rewritten, with all other objects
    /// unchanged.
    func removing(_ names: Set<String>) throws(SourceError) -> [UInt8] {
        guard names.contains(where: contains) else { return bytes }
        switch content {
        case .binary(let list, _): return try list.removing(names)
        case .text(let entries, let text):
            let isRemoved = entries.map { names.contains($0.name) }
            var ranges = entries.indices.filter { isRemoved[$0] }.map { entries[$0].range }
            if format == .json { ranges = JSONText.cuts(entries.map(\.range), isRemoved) }
            var rest: [UInt8] = []
            var position = 0
            for range in ranges {
                rest += text[position..<range.lowerBound]
                position = range.upperBound
            }
            return encoding.bytes(of: rest + text[position...])
        }
    }
}
