@_spi(Extensions) import LockboxCore
import LockboxPlatform

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

    static func first(_ store: StoreID?, _ now: Date) -> [UInt8] {
        var line = BackupJSON.Line()
        line.add("created", BackupDate.json(now))
        line.add("lockbox-backup", [UInt8(ascii: "1")])
        line.add("store", store?.hexadecimal)
        return line.finished()
    }

    static func item(_ item: StoredItem) -> [UInt8] {
        let attributes = item.attributes
        let (text, encoding) = BackupValue.text(of: item.value)
        var line = BackupJSON.Line(capacity: text.count + 512)
        if !attributes.searchable.isEmpty {
            var object = BackupJSON.Line()
            for (name, value) in attributes.searchable.sorted(by: { $0.key < $1.key }) {
                object.add(name, value)
            }
            line.add("attributes", object.finished().dropLast())
        }
        line.add("class", classes[attributes.accessibility])
        line.add("comment", attributes.comment)
        line.add("created", BackupDate.json(attributes.created))
        line.add("encoding", encoding?.rawValue)
        if let expires = attributes.expires { line.add("expires", BackupDate.json(expires)) }
        line.add("format", BackupValue.name(of: item.value.format))
        if attributes.origin.proof == .unlocked { line.add("isClassChosen", Array("true".utf8)) }
        line.add("key", item.key.key)
        line.add("label", attributes.label)
        line.add("modified", BackupDate.json(attributes.modified))
        line.add("prefix", item.key.prefix)
        // Last in the line, with the very bytes that are stored.
        line.add("value", text)
        return line.finished()
    }

    /// - Parameter digest: The SHA-256 hash of all lines before this one.
    static func last(_ count: Int, digest: [UInt8]) -> [UInt8] {
        var line = BackupJSON.Line()
        line.add("items", Array("\(count)".utf8))
        line.add("sha256", digest.hexadecimal)
        return line.finished()
    }

    private static let classes = Dictionary(
        uniqueKeysWithValues: Accessibility.allCases.filter { !$0.isThisDeviceOnly }.map { ($0, "\($0)") }
    )

    // MARK: Reading

    /// Calls `body` with each item whose line is complete.
    mutating func add(_ bytes: [UInt8], _ body: (StoredItem) throws -> Void) throws {
        var start = 0
        while let end = bytes[start...].firstIndex(of: 10) {
            let line = rest + bytes[start...end]
            rest = []
            try add(line: line, body)
            start = end + 1
        }
        rest += bytes[start...]
        if rest.count > Self.maximumLength { throw BackupError.damaged("one of its lines is too long") }
    }

    func checkIsWhole() throws(BackupError) {
        guard state == .whole, rest.isEmpty else {
            throw BackupError.damaged("it is cut short, or has data after its end")
        }
    }

    private mutating func add(line: [UInt8], _ body: (StoredItem) throws -> Void) throws {
        guard state != .whole else { throw BackupError.damaged("it has data after its end") }
        let members = try BackupJSON.Members(of: line[...])
        if state == .first {
            guard try members.required("lockbox-backup", members.count) == 1 else {
                throw BackupError.unknown("another version of the format")
            }
            state = .items
        } else if let items = try members.count("items") {
            let digest = try members.required("sha256", members.string)
            guard items == count, digest == hash.finished().hexadecimal else {
                throw BackupError.damaged("it does not have the items that it should")
            }
            state = .whole
        } else {
            try body(Self.item(members))
            count += 1
        }
        hash.add(line)
    }

    private static func item(_ members: BackupJSON.Members) throws(BackupError) -> StoredItem {
        let (name, format) = (
            try members.required("class", members.string), try members.required("format", members.string)
        )
        guard let accessibility = classes.first(where: { $0.value == name })?.key,
            let format = BackupValue.format(named: format)
        else {
            throw BackupError.unknown("an item of another class or format")
        }
        let encoding = try members.string("encoding")
        let value = try BackupValue.value(members.required("value", members.json), format, encoding)
        let isChosen = try members.bool("isClassChosen") ?? false
        let (created, modified) = (
            try members.required("created", members.date), try members.required("modified", members.date)
        )
        let (key, prefix) = (
            try members.required("key", members.string), try members.required("prefix", members.string)
        )
        let (label, comment) = (try members.string("label"), try members.string("comment"))
        let (expires, attributes) = (try members.date("expires"), try members.strings("attributes"))
        do {
            let item = try StoredItem(
                key: ItemKey(storedPrefix: prefix, key: key),
                value: value,
                accessibility: accessibility,
                created: created,
                modified: modified,
                expires: expires,
                label: label,
                comment: comment,
                searchable: attributes
            )
            return item.with(ClassOrigin(isChosen ? .unlocked : .missing))
        } catch { throw BackupError.damaged("an item is not valid: \(error)") }
    }
}

/// A value in a line: JSON as it is stored, text as a string, or base64.
enum BackupValue {
    enum Encoding: String { case text, base64 }

    /// Returns the JSON, and nil if it is the stored value itself.
    static func text(of value: ArchivedValue) -> (text: [UInt8], encoding: Encoding?) {
        let bytes = Array(value.data)
        if value.format == .json, !bytes.contains(10), BackupJSON.isValue(bytes) { return (bytes, nil) }
        if value.format == .lockbox2, let text = String(validating: bytes, as: UTF8.self) {
            let json = BackupJSON.string(text)
            // Control characters take six.
            if json.count <= 2 * bytes.count + 1024 { return (json, .text) }
        }
        return (Array("\"\(value.data.base64EncodedString())\"".utf8), .base64)
    }

    static func value(_ json: ArraySlice<UInt8>, _ format: ValueFormat, _ encoding: String?)
        throws(BackupError)
        -> ArchivedValue
    {
        let data: Data?
        switch encoding {
        case nil: data = format == .json ? Data(json) : nil
        case Encoding.text.rawValue: data = BackupJSON.string(json).map { Data($0.utf8) }
        case Encoding.base64.rawValue: data = BackupJSON.string(json).flatMap(bytes)
        default: throw BackupError.unknown("an item in another encoding")
        }
        guard let data else { throw BackupError.damaged("a value is not in its encoding") }
        do { return try ArchivedValue(data: data, format: format) } catch {
            throw BackupError.damaged("an item is not valid: \(error)")
        }
    }

    /// Returns nil unless it is the one text for them.
    private static func bytes(_ base64: String) -> Data? {
        Data(base64Encoded: base64).flatMap { $0.base64EncodedString() == base64 ? $0 : nil }
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

/// A date as text of ISO 8601 in UTC, with nanoseconds if it has a fraction: enough for every date of these centuries. A date that
/// such a text does not give exactly is the number of seconds since the beginning of 2001.
enum BackupDate {
    static func json(_ date: Date) -> [UInt8] {
        let seconds = date.timeIntervalSinceReferenceDate.rounded(.down)
        let nanoseconds = ((date.timeIntervalSinceReferenceDate - seconds) * 1e9).rounded()
        // The years 1 to 9999.
        guard (-6.31e10...2.524e11).contains(seconds), nanoseconds < 1e9,
            Self.date(seconds, nanoseconds) == date
        else {
            return Array("\(date.timeIntervalSinceReferenceDate)".utf8)
        }
        var (time, parts) = (time_t(seconds) + epoch, tm())
        gmtime_r(&time, &parts)
        func padded(_ number: CInt, _ length: Int = 2) -> String {
            String(repeating: "0", count: length - "\(number)".utf8.count) + "\(number)"
        }
        let day = "\(padded(parts.tm_year + 1900, 4))-\(padded(parts.tm_mon + 1))-\(padded(parts.tm_mday))"
        let clock = "\(padded(parts.tm_hour)):\(padded(parts.tm_min)):\(padded(parts.tm_sec))"
        let fraction = nanoseconds > 0 ? ".\(padded(CInt(nanoseconds), 9))" : ""
        return Array("\"\(day)T\(clock)\(fraction)Z\"".utf8)
    }

    /// The beginning of 2001, in seconds since that of 1970.
    private static let epoch = 978_307_200

    private static func date(_ seconds: Double, _ nanoseconds: Double) -> Date {
        Date(timeIntervalSinceReferenceDate: seconds + nanoseconds / 1e9)
    }

    static func date(_ text: String) -> Date? {
        let text = Array(text.utf8)
        let form = "0000-00-00T00:00:00".utf8
        guard text.count > form.count, text.last == UInt8(ascii: "Z"),
            zip(text, form).allSatisfy({ $1 == 48 ? (48...57).contains($0) : $0 == $1 })
        else { return nil }
        func number(_ range: Range<Int>) -> CInt { text[range].reduce(0) { $0 * 10 + CInt($1 - 48) } }
        var parts = tm()
        (parts.tm_year, parts.tm_mon, parts.tm_mday) = (
            number(0..<4) - 1900, number(5..<7) - 1, number(8..<10)
        )
        (parts.tm_hour, parts.tm_min, parts.tm_sec) = (number(11..<13), number(14..<16), number(17..<19))
        var normal = parts
        let seconds = timegm(&normal)
        // There is no 30th of February, for one.
        guard normal.tm_mon == parts.tm_mon, normal.tm_mday == parts.tm_mday, normal.tm_hour == parts.tm_hour,
            normal.tm_min == parts.tm_min, normal.tm_sec == parts.tm_sec
        else { return nil }
        var nanoseconds = 0.0
        if text.count > form.count + 1 {
            let digits = text[(form.count + 1)...].dropLast()
            guard text[form.count] == UInt8(ascii: "."), (1...9).contains(digits.count),
                digits.allSatisfy({ (48...57).contains($0) })
            else { return nil }
            nanoseconds = (0..<9).reduce(0) { sum, place in
                sum * 10 + (place < digits.count ? Double(digits[digits.startIndex + place] - 48) : 0)
            }
        }
        return date(Double(seconds - epoch), nanoseconds)
    }
}
