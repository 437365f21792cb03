import CLinux
import LockboxCore
import LockboxPlatform
import LockboxStore

/// The entries of a file that other programs also read and write.
struct FileItems: SourceItems {
    private let path: String
    private let format: SourceFile.Format
    private let calls: SystemCalls
    /// Nil if there is no file.
    private let file: SourceFile?

    init(path: String, format: SourceFile.Format, calls: SystemCalls = SystemCalls()) throws {
        self.path = try Path.absolute(path)
        self.format = format
        self.calls = calls
        file = try Self.read(self.path, format, calls)?.file
    }

    func keys(unreadable: (UnreadableItem) throws -> Void) -> [String] { file?.names ?? [] }

    func holds(_ key: String) -> Bool { file?.contains(key) ?? false }

    func item(forKey key: String) throws -> SourceItem? {
        guard let file, file.contains(key) else { return nil }
        return SourceItem(.property(try file.value(forName: key)))
    }

    /// Works on the file's current contents, so that other programs' changes are kept.
    func remove(_ items: [String: SourceItem]) throws -> Set<String> {
        guard let (current, status, destination) = try Self.read(path, format, calls) else { return [] }
        let there = items.filter { current.contains($0.key) }
        let same = there.filter { key, item in
            (try? current.value(forName: key)).map { SourceValue.property($0) == item.value } ?? false
        }
        if !same.isEmpty {
            var new = try AtomicFile(destination, like: status, calls)
            try new.write(Self.without(Set(same.keys), current, destination))
            // A change that another program makes after this check is lost; that cannot be prevented. Compares
            // the bytes, because two changes can have the same timestamp.
            guard let latest = try Self.read(path, format, calls), latest.file.bytes == current.bytes,
                FileIdentity(latest.status) == FileIdentity(status)
            else { return Set(there.keys) }
            try new.finish()
        }
        return Set(there.keys).subtracting(same.keys)
    }

    private static func without(_ names: Set<String>, _ file: SourceFile, _ path: String) throws -> [UInt8] {
        do { return try file.removing(names) } catch {
            throw LockboxError.sourceRefused(path: path, reason: error.description)
        }
    }

    private static func read(
        _ path: String,
        _ format: SourceFile.Format,
        _ calls: SystemCalls
    ) throws -> (file: SourceFile, status: stat, destination: String)? {
        // Resolves symbolic links, because the file must be replaced, not the link.
        guard let resolved = realpath(path, nil) else {
            let code = errno
            if code != ENOENT {
                throw LockboxError.storageFailure(operation: "realpath", path: path, errno: code)
            }
            if try isAbsent(path, calls) { return nil }
            throw LockboxError.unsafePermissions(
                path: path,
                reason: "it is a pipe, a deleted file or a link that leads nowhere; name a regular file"
            )
        }
        defer { free(resolved) }
        guard let destination = String(validatingCString: resolved) else {
            throw LockboxError.invalidLocation(
                location: path,
                reason: "a folder above it has a name that is not UTF-8"
            )
        }
        let opened = calls.open(destination, at: SystemCalls.currentDirectory, O_RDONLY)
        let file = CInt(try check(opened, "open", destination))
        defer { calls.close(file) }
        var status = stat()
        try check(calls.fstat(file, &status), "fstat", destination)
        try checkCanBeReplaced(file, status, destination)
        let bytes = try read(file, Int(status.st_size), destination, calls)
        guard try isUnchanged(destination, since: status, calls) else {
            throw LockboxError.storageFailure(operation: "read", path: destination, errno: EBUSY)
        }
        do { return (try SourceFile(bytes: bytes, format: format), status, destination) } catch {
            throw LockboxError.sourceRefused(path: destination, reason: error.description)
        }
    }

    /// Whether nothing has this path, rather than something that cannot be looked up: a pipe of `/dev/fd`, or a link whose
    /// target is not there, such as one to a file system that is not mounted.
    private static func isAbsent(_ path: String, _ calls: SystemCalls) throws -> Bool {
        var status = stat()
        let result = calls.stat(path, at: SystemCalls.currentDirectory, &status)
        if result == 0 { return false }
        guard -result == Int(ENOENT) || -result == Int(ENOTDIR) else {
            throw LockboxError.storageFailure(operation: "stat", path: path, errno: CInt(-result))
        }
        let parent = Path.parent(of: path)
        guard let resolved = realpath(parent.isEmpty ? "/" : parent, nil) else {
            return try isAbsent(parent, calls)
        }
        free(resolved)
        return true
    }

    private static func checkCanBeReplaced(_ file: CInt, _ status: stat, _ path: String) throws {
        let reason: String? =
            if status.st_mode & S_IFMT != S_IFREG {
                "it is \(FileIdentity.kind(status)), not a regular file; name another one"
            } else if status.st_nlink > 1 {
                // The items would remain under the file's other names.
                "it has \(status.st_nlink) hard links; remove the others"
            } else if has_access_control_list(file) != 0 {
                // Without it, others might be able to read the new file.
                "it has an access control list, which its replacement would not have; remove it"
            } else {
                nil
            }
        if let reason { throw LockboxError.unsafePermissions(path: path, reason: reason) }
    }

    private static func isUnchanged(_ path: String, since before: stat, _ calls: SystemCalls) throws -> Bool {
        var now = stat()
        try check(calls.stat(path, at: SystemCalls.currentDirectory, &now), "stat", path)
        let (time, timeBefore) = (modificationTime(now), modificationTime(before))
        return FileIdentity(now) == FileIdentity(before) && now.st_size == before.st_size
            && time.tv_sec == timeBefore.tv_sec && time.tv_nsec == timeBefore.tv_nsec
    }

    private static func read(_ file: CInt, _ size: Int, _ path: String, _ calls: SystemCalls) throws
        -> [UInt8]
    {
        guard size <= ArchivedValue.maximumSize else {
            throw LockboxError.sourceRefused(path: path, reason: "it is larger than 16 MiB")
        }
        return try [UInt8](unsafeUninitializedCapacity: size) { buffer, filled in
            let buffer = UnsafeMutableRawBufferPointer(UnsafeMutableBufferPointer(rebasing: buffer[..<size]))
            filled = try calls.readAll(file, into: buffer, path: path)
        }
    }
}

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
        case .environment: try EnvironmentText.entries(bytes)
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

/// An error in data that another library or program has written.
///
/// The texts contain names of classes and types and the top-level keys of archives, but neither values nor other
/// names of items.
package enum SourceError: Error, Equatable {
    /// The bytes are malformed.
    case malformed(String)
    /// More than ``PropertyValue/maximumDepth`` nested values, or a value that contains itself.
    case tooDeep
    /// More bytes than a value can have, or shared objects that would expand to far more.
    case tooLarge
    /// The archive contains an instance of an unsupported class.
    case unknownClass(String)
    case notAnArchive
    /// There is no entry with this name.
    case noSuchKey
    /// The archive has no value for a key. It has values for other keys.
    case noSuchTopKey(String, there: [String])
    /// The archived value is nil.
    case nothing
    /// The data is well-formed, but cannot be read without guessing or loss.
    case unsupported(String)
    /// Several items fit, and the wrong one could be taken.
    case severalItems(String)
    case notUTF8
    /// The data cannot be decoded as this type.
    case notDecodable(type: String)

    /// Returns the error for a class, with its name shortened and unprintable characters replaced.
    package static func unknownClass(named name: String) -> SourceError {
        let printable = name.unicodeScalars.prefix(64).map { scalar in
            scalar.isASCII && scalar.value > 0x20 && scalar.value != 0x7F ? Character(scalar) : "?"
        }
        return .unknownClass(String(printable))
    }

    /// Returns the error for a key that an archive does not have, with the first of those that it has, shortened.
    static func noSuchTopKey(_ key: String, among keys: [String]) -> SourceError {
        .noSuchTopKey(key, there: keys.sorted().prefix(8).map { String($0.prefix(64)) })
    }
}

extension SourceError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .malformed(let reason), .severalItems(let reason): reason
        case .tooDeep: "its values are nested too deeply"
        case .tooLarge: "it is too large"
        case .unknownClass(let name): "it contains an instance of \(name), which is not supported"
        case .notAnArchive: "it is not a keyed archive"
        case .noSuchKey: "it has no such entry"
        case .noSuchTopKey(let key, let there):
            "it has no value for the key \(String(reflecting: key)); its keys are "
                + (there.isEmpty ? "none" : there.map { String(reflecting: $0) }.joined(separator: ", "))
        case .nothing: "nothing is archived in it"
        case .unsupported(let reason): "it cannot be read without loss: \(reason)"
        case .notUTF8: "it is not UTF-8"
        case .notDecodable(let type): "it cannot be decoded as \(type)"
        }
    }
}
