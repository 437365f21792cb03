@_spi(Extensions) import Lockbox
import LockboxPlatform
@_spi(Extensions) import LockboxStore

/// The entries of a file that other programs also read and write.
struct FileItems: SourceItems {
    /// Reads the file, or returns nil if there is none.
    typealias Read = @Sendable () throws(LockboxError) -> ReplaceableFile?

    private let format: SourceFile.Format
    private let read: Read
    /// The file, or nil if there is none.
    private let file: SourceFile?

    init(path: String, format: SourceFile.Format) throws {
        // Also after a change of the current folder.
        let path = try ReplaceableFile.absolutePath(path)
        try self.init(format: format) { () throws(LockboxError) in try ReplaceableFile(path) }
    }

    /// Creates the entries of a text, of which nothing can be removed.
    init(text: [UInt8], named name: String, format: SourceFile.Format) throws {
        self.format = format
        read = { () throws(LockboxError) in nil }
        do { file = try SourceFile(bytes: text, format: format) } catch {
            throw LockboxError.sourceRefused(path: name, reason: error.description)
        }
    }

    init(format: SourceFile.Format, read: @escaping Read) throws {
        (self.format, self.read) = (format, read)
        file = try Self.current(read, format)?.entries
    }

    func keys(unreadable: (UnreadableItem) throws -> Void) -> [String] { file?.names ?? [] }

    func holds(_ key: String) -> Bool { file?.contains(key) ?? false }

    func item(forKey key: String) throws -> SourceItem? {
        guard let file, file.contains(key) else { return nil }
        return try reading { SourceItem(.typed(try file.value(forName: key))) }
    }

    func checkRemoval() throws { try read()?.checkReplacement() }

    /// Works on the file's current contents, so that other programs' changes are kept.
    func remove(_ items: [String: SourceItem]) throws -> Set<String> {
        guard let (current, entries) = try Self.current(read, format) else { return [] }
        let there = items.filter { entries.contains($0.key) }
        let same = there.filter { key, item in
            (try? entries.value(forName: key)).map { SourceValue.typed($0) == item.value } ?? false
        }
        if !same.isEmpty, try !current.replace(with: Self.without(Set(same.keys), entries, current.path)) {
            return Set(there.keys)
        }
        return Set(there.keys).subtracting(same.keys)
    }

    private static func without(_ names: Set<String>, _ entries: SourceFile, _ path: String) throws -> [UInt8]
    {
        do { return try entries.removing(names) } catch {
            throw LockboxError.sourceRefused(path: path, reason: error.description)
        }
    }

    private static func current(_ read: Read, _ format: SourceFile.Format) throws -> (
        file: ReplaceableFile, entries: SourceFile
    )? {
        guard let file = try read() else { return nil }
        do { return (file, try SourceFile(bytes: file.bytes, format: format)) } catch {
            throw LockboxError.sourceRefused(path: file.path, reason: error.description)
        }
    }
}
