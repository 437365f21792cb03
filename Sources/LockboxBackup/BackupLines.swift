@_spi(Extensions) import LockboxCore
import LockboxPlatform
import LockboxStore

/// Something in a backup that cannot be read.
enum BackupError: Error {
    /// It is not well-formed.
    case damaged(String)
    /// This version of Lockbox does not know it.
    case unknown(String)

    static let line = BackupError.damaged("one of its lines is not well-formed")
}

/// A backup's contents, as JSON in lines: what it is, an item in each, and how many there were. See <doc:OnDiskFormat>.
struct BackupLines {
    /// The longest line is that of an item with the longest value in twice as many characters.
    static let maximumLength = 2 * ArchivedValue.maximumSize + (1 << 20)

    private var rest: [UInt8] = []
    private var count = 0
    private var state = State.first
    private var hash = SHA256()

    private enum State { case first, items, whole }

    // MARK: Writing

    /// - Parameter store: The store's ID in hexadecimal.
    static func first(_ store: String?, _ now: Date) -> [UInt8] {
        line(FirstLine(created: now, version: 1, store: store))
    }

    static func item(_ item: StoredItem) -> [UInt8] { line(ItemLine(item)) }

    /// - Parameter digest: The SHA-256 hash of all lines before this one.
    static func last(_ count: Int, digest: [UInt8]) -> [UInt8] {
        line(LastLine(items: count, sha256: digest.hexadecimal))
    }

    private static func line(_ members: some Encodable) -> [UInt8] {
        // They are texts, finite numbers and true.
        guard let json = try? JSON.encode(members) else { preconditionFailure("no line of a backup") }
        return Array(json) + [10]
    }

    // MARK: Reading

    /// Calls `body` with each item whose line is complete.
    mutating func add(_ bytes: [UInt8], _ body: (StoredItem) throws -> Void) throws {
        var start = 0
        while let end = Self.newline(in: bytes, from: start) {
            let line = rest + bytes[start...end]
            rest = []
            try add(line: line, body)
            start = end + 1
        }
        rest += bytes[start...]
        if rest.count > Self.maximumLength { throw BackupError.damaged("one of its lines is too long") }
    }

    private static func newline(in bytes: [UInt8], from start: Int) -> Int? {
        bytes.withUnsafeBytes { bytes in
            guard let base = bytes.baseAddress, let found = memchr(base + start, 10, bytes.count - start)
            else {
                return nil
            }
            return UnsafeRawPointer(found) - base
        }
    }

    func checkIsWhole() throws(BackupError) {
        guard state == .whole, rest.isEmpty else {
            throw BackupError.damaged("it is cut short, or has data after its end")
        }
    }

    private mutating func add(line: [UInt8], _ body: (StoredItem) throws -> Void) throws {
        switch state {
        case .first:
            let first = try Line<FirstLine>.content(of: line)
            guard first.version == 1 else { throw BackupError.unknown("another version of the format") }
            state = .items
        case .items:
            switch try Line<ItemOrLastLine>.content(of: line) {
            case .item(let item):
                try body(item.item())
                count += 1
            case .last(let last):
                guard last.items == count, last.sha256 == hash.finished().hexadecimal else {
                    throw BackupError.damaged("it does not have the items that it should")
                }
                state = .whole
            }
        case .whole: throw BackupError.damaged("it has data after its end")
        }
        hash.add(line)
    }
}

// MARK: - The lines

private struct FirstLine: Codable {
    let created: Date?
    let version: Int
    let store: String?

    enum CodingKeys: String, CodingKey {
        case created, store
        case version = "lockbox-backup"
    }
}

private struct LastLine: Codable {
    let items: Int
    let sha256: String

    enum CodingKeys: CodingKey { case items, sha256 }
}

private struct ItemLine: Codable {
    let attributes: [String: String]?
    let `class`: String
    let comment: String?
    let created: Date
    let encoding: String?
    let expires: Date?
    let format: String
    let isClassChosen: Bool?
    let key: String
    let label: String?
    let modified: Date
    let prefix: String
    let value: String

    private static let classes = Dictionary(
        uniqueKeysWithValues: Accessibility.allCases.filter { !$0.isThisDeviceOnly }.map { ("\($0)", $0) }
    )

    init(_ item: StoredItem) {
        let its = item.attributes
        attributes = its.searchable.isEmpty ? nil : its.searchable
        `class` = "\(its.accessibility)"
        comment = its.comment
        created = its.created
        expires = its.expires
        format = BackupValue.name(of: item.value.format)
        isClassChosen = its.origin.proof == .unlocked ? true : nil
        key = item.key.key
        label = its.label
        modified = its.modified
        prefix = item.key.prefix
        (value, encoding) = BackupValue.text(of: item.value)
    }

    func item() throws(BackupError) -> StoredItem {
        guard let accessibility = Self.classes[`class`], let format = BackupValue.format(named: format)
        else {
            throw BackupError.unknown("an item of another class or format")
        }
        let data = try BackupValue.data(value, format, encoding)
        do {
            let item = try StoredItem(
                key: ItemKey(storedPrefix: prefix, key: key),
                value: ArchivedValue(data: data, format: format),
                accessibility: accessibility,
                created: created,
                modified: modified,
                expires: expires,
                label: label,
                comment: comment,
                searchable: attributes ?? [:]
            )
            return item.with(ClassOrigin(isClassChosen == true ? .unlocked : .missing))
        } catch { throw BackupError.damaged("an item is not valid: \(error)") }
    }
}

private enum ItemOrLastLine: Decodable {
    case item(ItemLine)
    case last(LastLine)

    init(from decoder: any Decoder) throws {
        let isLast = try decoder.container(keyedBy: LastLine.CodingKeys.self).contains(.items)
        self = isLast ? .last(try LastLine(from: decoder)) : .item(try ItemLine(from: decoder))
    }
}

// MARK: - One line

/// A line as it is read.
private struct Line<Content: Decodable>: Decodable {
    private let content: Content
    /// The number of its members, and of its attributes, by names that differ.
    private let memberCount: Int

    init(from decoder: any Decoder) throws {
        content = try Content(from: decoder)
        let members = try decoder.container(keyedBy: Name.self)
        let attributes = try? members.nestedContainer(
            keyedBy: Name.self,
            forKey: Name(stringValue: "attributes")
        )
        memberCount = members.allKeys.count + (attributes?.allKeys.count ?? 0)
    }

    static func content(of bytes: [UInt8]) throws(BackupError) -> Content {
        // A decoder also takes UTF-16 and a byte order mark.
        guard bytes.first == UInt8(ascii: "{"), !bytes.contains(0),
            String(validating: bytes, as: UTF8.self) != nil
        else { throw .line }
        let line: Self
        do { line = try JSON.decode(Self.self, from: Data(bytes)) } catch DecodingError.keyNotFound(
            let member,
            _
        ) {
            throw .damaged("a line has no \(member.stringValue)")
        } catch { throw .line }
        // Otherwise two readers could take different members of one name.
        guard line.memberCount == colons(in: bytes) else { throw .line }
        return line.content
    }

    /// The number of colons that are in no text.
    private static func colons(in bytes: [UInt8]) -> Int {
        var (count, isInText, isEscaped) = (0, false, false)
        for byte in bytes {
            if isEscaped {
                isEscaped = false
            } else if byte == UInt8(ascii: "\"") {
                isInText.toggle()
            } else if byte == UInt8(ascii: "\\") {
                isEscaped = true
            } else if byte == UInt8(ascii: ":"), !isInText {
                count += 1
            }
        }
        return count
    }
}

private struct Name: CodingKey {
    let stringValue: String
    var intValue: Int? { nil }

    init(stringValue: String) { self.stringValue = stringValue }
    init?(intValue: Int) { nil }
}

// MARK: - Values

/// A value in a line, as text.
enum BackupValue {
    enum Encoding: String { case text, base64 }

    /// Returns the text of a value, and how it gives the stored bytes. Nil if these are the text as a JSON string (RFC 8785).
    static func text(of value: ArchivedValue) -> (String, encoding: String?) {
        if value.format == .json, value.data.first == UInt8(ascii: "\""),
            let text = try? JSON.decode(String.self, from: value.data),
            (try? JSON.encode(text)) == value.data
        {
            return (text, nil)
        }
        if !value.data.withUnsafeBytes({ $0.contains(where: isControl) }),
            let text = String(validating: value.data, as: UTF8.self)
        {
            return (text, Encoding.text.rawValue)
        }
        return (value.data.base64EncodedString(), Encoding.base64.rawValue)
    }

    static func data(_ text: String, _ format: ValueFormat, _ encoding: String?) throws(BackupError) -> Data {
        let data: Data?
        switch encoding {
        case nil: data = format == .json ? try? JSON.encode(text) : nil
        case Encoding.text.rawValue: data = Data(text.utf8)
        // There is one text for them.
        case Encoding.base64.rawValue:
            data = Data(base64Encoded: text).flatMap { $0.base64EncodedString() == text ? $0 : nil }
        default: throw BackupError.unknown("an item in another encoding")
        }
        guard let data else { throw BackupError.damaged("a value is not in its encoding") }
        return data
    }

    /// In JSON these take six characters.
    private static func isControl(_ byte: UInt8) -> Bool {
        byte < 32 && byte != 9 && byte != 10 && byte != 13
    }

    private static let names: [(ValueFormat, String)] = [
        (.data, "data"), (.json, "json"), (.lockbox2, "lockbox2"),
    ]

    static func name(of format: ValueFormat) -> String {
        names.first { $0.0 == format }?.1 ?? "\(format.rawValue)"
    }

    static func format(named name: String) -> ValueFormat? {
        if let format = names.first(where: { $0.1 == name })?.0 { return format }
        // 0 is the number of none, and each format has one name.
        guard let number = UInt8(name), number > 0, Self.name(of: ValueFormat(rawValue: number)) == name
        else { return nil }
        return ValueFormat(rawValue: number)
    }
}

private enum JSON {
    static func encode(_ value: some Encodable) throws -> Data {
        let encoder = JSONEncoder()
        // The names in order, so that a line is always the same, and the text as RFC 8785 writes it.
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return try encoder.encode(value)
    }

    static func decode<Value: Decodable>(_ type: Value.Type, from json: Data) throws -> Value {
        try JSONDecoder().decode(type, from: json)
    }
}
