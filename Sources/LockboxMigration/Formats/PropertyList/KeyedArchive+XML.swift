import LockboxCore

extension KeyedArchive {
    /// Returns an archive in XML as a binary property list.
    ///
    /// - Throws: ``SourceError/notAnArchive`` if the bytes are some other text.
    static func binary(ofXML bytes: [UInt8]) throws(SourceError) -> [UInt8] {
        guard bytes.count <= BinaryPropertyList.maximumSize else { throw .tooLarge }
        let encoding = XMLEncoding(of: bytes)
        guard let text = try? encoding.utf8(of: bytes) else { throw .notAnArchive }
        var start = ByteCursor(text)
        _ = start.take("\u{FEFF}")
        start.skip(\.isWhitespace)
        guard start.sees("<?xml") || start.sees("<!DOCTYPE plist") || start.sees("<plist") else {
            throw .notAnArchive
        }
        let entries: [SourceFile.Entry]
        do { entries = try XMLPropertyList.entries(text, encoding) } catch {
            // Any other text may begin like XML.
            throw text.contains("<key>$archiver</key>".utf8) ? error : .notAnArchive
        }
        guard entries.contains(where: { $0.name == "$archiver" }) else { throw .notAnArchive }
        return try BinaryPropertyListWriter.bytes(of: entries)
    }
}
