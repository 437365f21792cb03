import LockboxCore

/// The searchable attributes in an item's metadata: their number, then for each the lengths of its name and its
/// text, the name, and the text. In the order of the names' bytes, each name once. Nothing if there are none.
enum SearchableAttributes {
    static let maximumLength =
        1 + 4 * ItemAttributes.maximumSearchableCount + ItemAttributes.maximumSearchableLength

    static func length(_ searchable: [String: String]) -> Int {
        if searchable.isEmpty { return 0 }
        return searchable.reduce(1) { $0 + 4 + $1.key.utf8.count + $1.value.utf8.count }
    }

    static func write(_ searchable: [String: String], to writer: inout ByteWriter) {
        if searchable.isEmpty { return }
        writer.write(UInt8(searchable.count))
        let sorted = searchable.sorted { $0.key.utf8.lexicographicallyPrecedes($1.key.utf8) }
        for (name, text) in sorted {
            writer.write(UInt16(name.utf8.count))
            writer.write(UInt16(text.utf8.count))
            writer.write(name)
            writer.write(text)
        }
    }

    /// Returns nil if they are not well-formed.
    static func read(_ reader: inout ByteReader) -> [String: String]? {
        guard let count = reader.read(UInt8.self), count > 0 else { return nil }
        var searchable: [String: String] = [:]
        var last: String?
        for _ in 0..<count {
            guard let nameLength = reader.read(UInt16.self), let textLength = reader.read(UInt16.self),
                let name = reader.readText(Int(nameLength)), let text = reader.readText(Int(textLength)),
                last.map({ $0.utf8.lexicographicallyPrecedes(name.utf8) }) ?? true,
                searchable.updateValue(text, forKey: name) == nil
            else { return nil }
            last = name
        }
        return searchable
    }
}
