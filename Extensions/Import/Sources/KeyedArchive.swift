import LockboxPlatform

/// Reads an `NSKeyedArchiver` archive, binary or in XML, without looking up or instantiating classes.
///
/// On Linux, Foundation's `NSKeyedUnarchiver` terminates the process if an archive contains an unexpected
/// class.
///
/// **Booleans.** `NSKeyedArchiver` writes a boolean `NSNumber` as a property list's true or false, and a number
/// as a number. But it writes equal objects only once, and treats the numbers 0 and 1 as equal to the booleans
/// (observed with Foundation for Linux). So if any object other than a string is shared, a 0, 1, true or false
/// may stand for the other, and is read as ``PropertyValue/booleanOrNumber(_:)``. Otherwise it is read as what
/// it is.
struct KeyedArchive: Unprinted {
    /// The keys of the archived values. Values archived without a key are not included.
    let keys: [String]

    private let list: BinaryPropertyList
    private let top: [String: BinaryPropertyList.Reference]
    private let objects: [BinaryPropertyList.Reference]
    private let sharesObjects: Bool

    init(_ bytes: [UInt8]) throws(SourceError) {
        list = try BinaryPropertyList(
            bytes.starts(with: BinaryPropertyList.magic) ? bytes : Self.binary(ofXML: bytes)
        )
        let unfolding = Unfolding(size: list.bytes.count)
        guard let root = try Self.fields(list.root, list, unfolding),
            let archiver = root["$archiver"], case .string("NSKeyedArchiver") = try list.object(archiver)
        else { throw .notAnArchive }
        guard let version = root["$version"], case .integer(100_000) = try list.object(version) else {
            throw .unsupported("its archive version is not supported")
        }
        guard let topReference = root["$top"], let top = try Self.fields(topReference, list, unfolding),
            let objectsReference = root["$objects"],
            case .array(let objects) = try list.object(objectsReference),
            let null = objects.first, case .string("$null") = try list.object(null)
        else { throw .malformed("an archive has no $objects or no $top") }
        (self.top, self.objects) = (top, objects)
        keys = top.keys.filter { $0.hasPrefix("$$") || !$0.hasPrefix("$") }
            .map { $0.hasPrefix("$") ? String($0.dropFirst()) : $0 }.sorted()
        sharesObjects = try Self.sharesObjects(objects, list)
    }

    /// Returns the value archived with `encode(_:forKey:)`; ``PropertyValue/null`` for `NSNull`.
    ///
    /// The values of `encode(_:)`, without keys, have the keys `$0`, `$1` and so on. If there is only one, it has no
    /// name that could be another's, and is the value for any key.
    ///
    /// - Throws: ``SourceError/noSuchTopKey(_:there:)`` if there is no such key, ``SourceError/nothing`` if the
    ///   value is nil, or another ``SourceError``.
    func value(forKey key: String) throws(SourceError) -> PropertyValue {
        guard let reference = topReference(forKey: key) else {
            let numbered = top.keys.filter { $0.hasPrefix("$") && !$0.hasPrefix("$$") }
            throw .noSuchTopKey(key, among: keys + numbered)
        }
        if try list.uid(reference) == 0 { throw .nothing }
        return try value(reference, Unfolding(size: list.bytes.count))
    }

    private func topReference(forKey key: String) -> BinaryPropertyList.Reference? {
        guard key.hasPrefix("$") else { return top[key] ?? single }
        let isNumber = key.dropFirst().utf8.allSatisfy(\.isDigit)
        // A caller's own key that begins with $ has one more in the archive.
        return top["$" + key] ?? (isNumber ? top[key] : nil) ?? single
    }

    /// The archive's only value, if it has no key.
    private var single: BinaryPropertyList.Reference? { top.count == 1 ? top["$0"] : nil }

    /// Decodes a value archived by Strongbox: JSON inside a `Data`.
    ///
    /// - Throws: ``SourceError``, also instead of the decoder's errors, which quote the value.
    func json<Value: Decodable>(_ type: Value.Type, forKey key: String) throws(SourceError) -> Value {
        guard case .data(let data) = try value(forKey: key) else { throw .notDecodable(type: "\(type)") }
        do { return try JSONDecoder().decode(type, from: data) } catch {
            throw .notDecodable(type: "\(type)")
        }
    }

    // MARK: Objects

    /// Resolves a reference, which is usually a UID of an object in the archive.
    private func value(
        _ reference: BinaryPropertyList.Reference,
        _ unfolding: Unfolding
    ) throws(SourceError) -> PropertyValue {
        guard case .uid(let uid) = try list.object(reference) else {
            throw .malformed("an object is referenced without a UID")
        }
        if uid == 0 { return .null }
        guard uid < objects.count else {
            throw .malformed("an archive refers to a missing object")
        }
        let object = objects[uid]
        return try unfolding.value(of: object, length: list.extent(of: object).length) {
            () throws(SourceError) in
            guard let fields = try Self.fields(object, list, unfolding) else {
                return try plain(list.object(object))
            }
            return try instance(fields, unfolding)
        }
    }

    /// Reads a value that is archived without a class.
    private func plain(_ object: BinaryPropertyList.Object) throws(SourceError) -> PropertyValue {
        switch object {
        case .boolean(let value): sharesObjects ? .booleanOrNumber(value) : .boolean(value)
        case .integer(let value) where sharesObjects && (value == 0 || value == 1):
            .booleanOrNumber(value == 1)
        case .real(1) where sharesObjects: .booleanOrNumber(true)
        case .real(let value) where sharesObjects && value.bitPattern == 0: .booleanOrNumber(false)
        case .integer(let value): .integer(value)
        case .unsigned(let value): .unsigned(value)
        case .real(let value): .real(value)
        case .data(let value): .data(value)
        case .date(let value): .date(value)
        case .string("$null"): throw .unsupported("a string cannot be distinguished from nil")
        case .string(let value): .string(value)
        default: throw .malformed("an object has no class")
        }
    }

    private func instance(_ fields: Fields, _ unfolding: Unfolding) throws(SourceError) -> PropertyValue {
        var instance = Instance(fields, try className(fields, unfolding))
        let value: PropertyValue
        switch instance.className {
        case "NSNull": value = .null
        case "NSString", "NSMutableString": value = try string(&instance, unfolding)
        case "NSNumber": value = try number(&instance, unfolding)
        case "NSDecimalNumber": value = try decimal(&instance, unfolding)
        case "NSDate": value = try date(&instance, unfolding)
        case "NSData", "NSMutableData":
            value = .data(try data(instance.take("NS.data", "NS.bytes"), instance, unfolding))
        case "NSUUID": value = try uuid(&instance, unfolding)
        case "NSURL": value = try url(&instance, unfolding)
        case "NSArray", "NSMutableArray": value = .array(try elements(&instance, unfolding))
        case "NSSet", "NSMutableSet": value = .set(try elements(&instance, unfolding))
        case "NSOrderedSet", "NSMutableOrderedSet": value = .orderedSet(try elements(&instance, unfolding))
        case "NSDictionary", "NSMutableDictionary": value = try dictionary(&instance, unfolding)
        default: throw .unknownClass(named: instance.className)
        }
        guard instance.fields.isEmpty else { throw instance.malformed }
        return value
    }

    private func className(_ fields: Fields, _ unfolding: Unfolding) throws(SourceError) -> String {
        guard let reference = fields["$class"], case .uid(let uid) = try list.object(reference),
            uid < objects.count, let description = try Self.fields(objects[uid], list, unfolding),
            let name = description["$classname"], case .string(let name) = try leaf(name, unfolding)
        else { throw .malformed("an object has no class") }
        return name
    }

    /// Reads an object outside the archive's list of objects, which several of them may share.
    private func leaf(
        _ reference: BinaryPropertyList.Reference,
        _ unfolding: Unfolding
    ) throws(SourceError) -> BinaryPropertyList.Object {
        try unfolding.charge(list.extent(of: reference).length)
        return try list.object(reference)
    }

    // MARK: Classes

    private func string(_ instance: inout Instance, _ unfolding: Unfolding) throws(SourceError)
        -> PropertyValue
    {
        if let text = instance.take("NS.string") {
            guard case .string(let text) = try leaf(text, unfolding) else { throw instance.malformed }
            return .string(text)
        }
        let data = try data(instance.take("NS.bytes"), instance, unfolding)
        guard let text = String(validating: data, as: UTF8.self) else { throw .notUTF8 }
        return .string(text)
    }

    private func number(_ instance: inout Instance, _ unfolding: Unfolding) throws(SourceError)
        -> PropertyValue
    {
        guard let reference = instance.take("NS.number", "NS.boolval", "NS.intval", "NS.dblval") else {
            throw instance.malformed
        }
        let number = try plain(leaf(reference, unfolding))
        switch number {
        case .boolean, .booleanOrNumber, .integer, .unsigned, .real: return number
        default: throw instance.malformed
        }
    }

    /// The mantissa has up to eight 16-bit digits, lowest first; the exponent is a power of ten. NaN is a
    /// negative number without digits.
    private func decimal(_ instance: inout Instance, _ unfolding: Unfolding) throws(SourceError)
        -> PropertyValue
    {
        let data = try data(instance.take("NS.mantissa"), instance, unfolding)
        let exponent = try integer(instance.take("NS.exponent"), -128...127, instance, unfolding)
        let count = try integer(instance.take("NS.length"), 0...8, instance, unfolding)
        let isNegative = try integer(instance.take("NS.negative"), 0...1, instance, unfolding) == 1
        let isLittleEndian = try integer(instance.take("NS.mantissa.bo"), 1...2, instance, unfolding) == 1
        _ = instance.take("NS.compact")
        guard data.count == 16, count > 0 || !isNegative else { throw instance.malformed }
        let bytes = Array(data)
        let mantissa = (0..<count).reversed().reduce(into: Decimal(0)) { mantissa, index in
            let (low, high) = (bytes[2 * index], bytes[2 * index + 1])
            mantissa =
                mantissa * 65_536
                + Decimal(isLittleEndian ? Int(high) << 8 | Int(low) : Int(low) << 8 | Int(high))
        }
        let number = Decimal(sign: isNegative ? .minus : .plus, exponent: exponent, significand: mantissa)
        guard !number.isNaN else { throw instance.malformed }
        return .decimal(number)
    }

    private func integer(
        _ reference: BinaryPropertyList.Reference?,
        _ range: ClosedRange<Int>,
        _ instance: Instance,
        _ unfolding: Unfolding
    ) throws(SourceError) -> Int {
        guard let reference else { throw instance.malformed }
        let integer: Int? =
            switch try leaf(reference, unfolding) {
            case .integer(let integer): Int(exactly: integer)
            case .boolean(let value): value ? 1 : 0
            default: nil
            }
        guard let integer, range.contains(integer) else { throw instance.malformed }
        return integer
    }

    private func date(_ instance: inout Instance, _ unfolding: Unfolding) throws(SourceError) -> PropertyValue
    {
        guard let reference = instance.take("NS.time") else { throw instance.malformed }
        let time: Double?
        switch try leaf(reference, unfolding) {
        case .real(let real): time = real
        // Property lists store equal numbers once, so the date may share an integer with another object.
        case .integer(let integer): time = Double(exactly: integer)
        default: time = nil
        }
        guard let time else { throw instance.malformed }
        return .date(Date(timeIntervalSinceReferenceDate: time))
    }

    private func data(
        _ reference: BinaryPropertyList.Reference?,
        _ instance: Instance,
        _ unfolding: Unfolding
    ) throws(SourceError) -> Data {
        guard let reference, case .data(let data) = try leaf(reference, unfolding) else {
            throw instance.malformed
        }
        return data
    }

    private func uuid(_ instance: inout Instance, _ unfolding: Unfolding) throws(SourceError) -> PropertyValue
    {
        let data = try data(instance.take("NS.uuidbytes"), instance, unfolding)
        guard data.count == 16 else { throw instance.malformed }
        return .uuid(data.withUnsafeBytes { UUID(uuid: $0.loadUnaligned(as: uuid_t.self)) })
    }

    private func url(_ instance: inout Instance, _ unfolding: Unfolding) throws(SourceError) -> PropertyValue
    {
        guard let relative = instance.take("NS.relative"), let base = instance.take("NS.base"),
            case .string(let text) = try value(relative, unfolding)
        else { throw instance.malformed }
        let url: URL?
        switch try value(base, unfolding) {
        case .null: url = URL(string: text)
        case .url(let base): url = URL(string: text, relativeTo: base)
        default: throw instance.malformed
        }
        guard let url, url.relativeString == text else {
            throw .unsupported("an address is not a valid URL")
        }
        return .url(url)
    }

    /// Reads `NS.objects`, or `NS.object.0` and so on, which ordered sets use.
    private func elements(
        _ instance: inout Instance,
        _ unfolding: Unfolding
    ) throws(SourceError) -> [PropertyValue] {
        if let list = instance.take("NS.objects") { return try elements(list, instance, unfolding) }
        guard instance.className.hasSuffix("OrderedSet") || !instance.fields.isEmpty else {
            throw instance.malformed
        }
        var values: [PropertyValue] = []
        while let reference = instance.take("NS.object.\(values.count)") {
            values.append(try value(reference, unfolding))
        }
        return values
    }

    private func dictionary(
        _ instance: inout Instance,
        _ unfolding: Unfolding
    ) throws(SourceError) -> PropertyValue {
        guard let keys = instance.take("NS.keys"), let values = instance.take("NS.objects") else {
            throw instance.malformed
        }
        return try .dictionary(
            keys: elements(keys, instance, unfolding),
            values: elements(values, instance, unfolding)
        )
    }

    private func elements(
        _ reference: BinaryPropertyList.Reference,
        _ instance: Instance,
        _ unfolding: Unfolding
    ) throws(SourceError) -> [PropertyValue] {
        guard case .array(let elements) = try list.object(reference) else { throw instance.malformed }
        try unfolding.charge(elements.count)
        var values: [PropertyValue] = []
        for element in elements { values.append(try value(element, unfolding)) }
        return values
    }

    // MARK: Fields

    private typealias Fields = [String: BinaryPropertyList.Reference]

    /// An object's fields. All of them must be consumed.
    private struct Instance {
        let className: String
        var fields: Fields

        init(_ fields: Fields, _ className: String) {
            (self.fields, self.className) = (fields, className)
            self.fields["$class"] = nil
        }

        /// Consumes and returns the first of the fields that exists.
        mutating func take(_ names: String...) -> BinaryPropertyList.Reference? {
            for name in names {
                if let reference = fields.removeValue(forKey: name) { return reference }
            }
            return nil
        }

        var malformed: SourceError { .malformed("an \(className) is not as NSKeyedArchiver writes it") }
    }

    /// Returns the fields of a dictionary object, or nil if the object is of another kind.
    private static func fields(
        _ reference: BinaryPropertyList.Reference,
        _ list: BinaryPropertyList,
        _ unfolding: Unfolding
    ) throws(SourceError) -> Fields? {
        guard case .dictionary(let keys, let values) = try list.object(reference) else { return nil }
        var fields: Fields = [:]
        for (key, value) in zip(keys, values) {
            try unfolding.charge(list.extent(of: key).length)
            guard case .string(let name) = try list.object(key) else {
                throw .malformed("a key is not a string")
            }
            guard fields.updateValue(value, forKey: name) == nil else {
                throw .malformed("an object has two fields with the same name")
            }
        }
        return fields
    }

    /// Whether an object other than a string, a class or nil is referenced more than once.
    private static func sharesObjects(
        _ objects: [BinaryPropertyList.Reference],
        _ list: BinaryPropertyList
    ) throws(SourceError) -> Bool {
        var seen: Set<Int> = [0]
        var shared: Set<Int> = []
        for reference in 0..<list.count {
            let extent = try list.extent(of: reference)
            guard extent.isContainer else { continue }
            for child in try list.references(list.bytes[extent.payload]) {
                guard let uid = try list.uid(child), uid < objects.count else { continue }
                if !seen.insert(uid).inserted { shared.insert(uid) }
            }
        }
        for uid in shared where try !isTextOrClass(objects[uid], list) { return true }
        return false
    }

    private static func isTextOrClass(
        _ reference: BinaryPropertyList.Reference,
        _ list: BinaryPropertyList
    ) throws(SourceError) -> Bool {
        let extent = try list.extent(of: reference)
        guard extent.isDictionary else { return extent.isText }
        for key in try list.references(list.bytes[extent.payload]).prefix(extent.count) {
            if try list.bytes[list.extent(of: key).payload].elementsEqual("$classname".utf8) { return true }
        }
        return false
    }
}

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
