// swift-format-ignore-file: NeverUseForceTry

// Feeds arbitrary bytes to every reader of what other programs wrote. Its crash would be the app's at its first start
// after the migration. LOCKBOX_FUZZ_KIND, a number, keeps to one of the kinds below.

import Foundation

private let onlyKind = ProcessInfo.processInfo.environment["LOCKBOX_FUZZ_KIND"].flatMap(Int.init)

func fuzzSources(_ kind: Int, _ input: [UInt8]) {
    switch onlyKind ?? kind % 8 {
    case 0: archive(input)
    case 1: archive(assembledArchive(input))
    case 2: file(input, .propertyList)
    case 3: file(PropertyListWriter.assemble(objects(input)), .propertyList)
    case 4: file(Array("<plist><dict>".utf8) + input, .propertyList)
    case 5: file(input, .json)
    case 6:
        for dialect in EnvironmentDialect.allCases { file(input, .environment(dialect)) }
    default: file(input, .netrc)
    }
}

/// An input of each kind.
func writeSourceSeeds(to folder: String) {
    let nested: [String: Any] = [
        "text": "é", "list": [1, 2.5, true, Date(), Data([1, 2])], "map": ["a": ["b": -1]],
    ]
    let objects: [Any] = [
        "text", 1, true, Date(), Data([1, 2, 3]), UUID(),
        URL(string: "a?b", relativeTo: URL(string: "https://c/d"))!,
        NSNull(), [1, 2], Set([1]), NSOrderedSet(array: ["a", "b"]), NSMutableData(data: Data([4])), nested,
    ]
    var seeds = objects.map { [0] + archived($0) }
    seeds.append([1, 1, 9, 3, 0x80, 1, 9, 6, 0x51, 0x61])
    for (kind, format) in [(2, PropertyListSerialization.PropertyListFormat.binary), (2, .xml)] {
        seeds.append(
            [UInt8(kind)]
                + (try! PropertyListSerialization.data(fromPropertyList: nested, format: format, options: 0))
        )
    }
    seeds.append([4] + Array("<key>a</key><real>1.5</real><key>b</key><data>AQ==</data></dict></plist>".utf8))
    seeds.append([5] + Array(#"{"a": [1, 2.5e3, null], "b": "\u00e9\ud83d\ude00", "c": {}}"#.utf8))
    seeds.append([6] + Array("# c\nA=b c # d\nexport B='x\ny'\r\nC=\"a\\nb\"\n".utf8))
    seeds.append([7] + Array("machine a login b password \"c\\\"\"\nmacdef d\ne\n\ndefault login f\n".utf8))
    for (index, seed) in seeds.enumerated() {
        try! Data(seed).write(to: URL(fileURLWithPath: "\(folder)/seed-\(index)"))
    }
}

private func archived(_ object: Any) -> [UInt8] {
    let archiver = NSKeyedArchiver(requiringSecureCoding: false)
    archiver.encode(object, forKey: "key")
    archiver.finishEncoding()
    return Array(archiver.encodedData)
}

/// Objects as the input has them, each behind its length.
private func objects(_ input: [UInt8]) -> [[UInt8]] {
    var objects: [[UInt8]] = []
    var rest = input[...]
    while let length = rest.popFirst() {
        objects.append(Array(rest.prefix(Int(length) % 64)))
        rest = rest.dropFirst(Int(length) % 64)
    }
    return objects
}

private let classNames = [
    "NSString", "NSMutableString", "NSNumber", "NSDate", "NSData", "NSMutableData", "NSURL", "NSUUID",
    "NSArray",
    "NSSet", "NSOrderedSet", "NSDictionary", "NSMutableDictionary", "NSNull", "NSError",
]

private let fieldNames = [
    "$class", "NS.string", "NS.bytes", "NS.data", "NS.time", "NS.base", "NS.relative", "NS.uuidbytes",
    "NS.objects",
    "NS.keys", "NS.object.0", "NS.object.1", "NS.number", "NS.boolval",
]

/// Every name of a field and every class, which the input's objects can refer to.
private let fixed: (objects: [[UInt8]], references: [Int]) = {
    var objects = [[0]] + fieldNames.map { PropertyListWriter.marker(5, $0.utf8.count) + $0.utf8 }
    let nameOfClass = PropertyListWriter.append(.ascii("$classname"), to: &objects)
    let references =
        [PropertyListWriter.append(.ascii("$null"), to: &objects)]
        + classNames.map { name in
            PropertyListWriter.append(.dictionary([(.reference(nameOfClass), .ascii(name))]), to: &objects)
        }
    return (objects, references)
}()

/// An archive whose objects are the input's.
private func assembledArchive(_ input: [UInt8]) -> [UInt8] {
    let fuzzed = objects(input)
    var all = fixed.objects + fuzzed
    let references = fixed.references + (fixed.objects.count..<all.count)
    let root = PropertyListWriter.append(
        .dictionary([
            (.ascii("$version"), .integer(100_000, size: 4)),
            (.ascii("$archiver"), .ascii("NSKeyedArchiver")),
            (.ascii("$top"), .dictionary([(.ascii("key"), .uid(fixed.references.count))])),
            (.ascii("$objects"), .array(references.map(PropertyListWriter.Node.reference))),
        ]),
        to: &all
    )
    return PropertyListWriter.assemble(all, root: root)
}

private func archive(_ bytes: [UInt8]) {
    guard let archive = try? KeyedArchive(bytes) else { return }
    for key in archive.keys {
        _ = try? archive.json([String: Int].self, forKey: key)
        guard let value = try? archive.value(forKey: key) else { continue }
        check(value, of: bytes)
    }
}

private func file(_ bytes: [UInt8], _ format: SourceFile.Format) {
    guard let file = try? SourceFile(bytes: bytes, format: format) else { return }
    precondition(try! file.removing([]) == bytes)
    for name in file.names {
        if let value = try? file.value(forName: name), format == .propertyList,
            bytes.starts(with: "bplist".utf8)
        {
            check(value, of: bytes)
        }
        guard let rest = try? file.removing([name]) else { continue }
        let other = try! SourceFile(bytes: rest, format: format)
        precondition(other.names == file.names.filter { $0 != name })
        for name in other.names.prefix(4) {
            // With less in the file, less can be shared.
            guard let value = try? other.value(forName: name) else { continue }
            precondition((try! file.value(forName: name)).description == value.description)
        }
    }
    if let rest = try? file.removing(Set(file.names)) {
        precondition(try! SourceFile(bytes: rest, format: format).names.isEmpty)
    }
}

/// A value holds nothing that was not in the bytes, is not too deep, and decodes without a trap.
private func check(_ value: PropertyValue, of bytes: [UInt8]) {
    var leaves: Set<PropertyValue> = []
    collectLeaves(of: value, into: &leaves, depth: 1)
    // Each once: what is shared stands for many.
    for leaf in leaves { precondition(isFrom(bytes, leaf)) }
    _ = try? value.decode(Anything.self)
    _ = try? value.decode([String: [Int8]].self)
    _ = try? value.decode([Int: Set<String>].self)
    _ = try? value.decode([Decimal?].self)
    _ = try? value.decode(URL.self)
    _ = try? value.decode(Float.self)
}

private func collectLeaves(of value: PropertyValue, into leaves: inout Set<PropertyValue>, depth: Int) {
    precondition(depth <= PropertyValue.maximumDepth)
    switch value {
    case .array(let elements), .set(let elements), .orderedSet(let elements):
        for element in elements { collectLeaves(of: element, into: &leaves, depth: depth + 1) }
    case .dictionary(let pairs):
        for pair in pairs {
            collectLeaves(of: pair.key, into: &leaves, depth: depth + 1)
            collectLeaves(of: pair.value, into: &leaves, depth: depth + 1)
        }
    case .url(let url):
        leaves.insert(.string(url.relativeString))
        if let base = url.baseURL { collectLeaves(of: .url(base), into: &leaves, depth: depth + 1) }
    default: leaves.insert(value)
    }
}

/// Whether a value that holds no other stands in the bytes. Those of a decimal number are put together.
private func isFrom(_ bytes: [UInt8], _ value: PropertyValue) -> Bool {
    func bigEndian(_ number: some FixedWidthInteger) -> [UInt8] {
        withUnsafeBytes(of: number.bigEndian, Array.init)
    }
    switch value {
    case .string(let text):
        return bytes.contains(Array(text.utf8)) || bytes.contains(text.utf16.flatMap(bigEndian))
    case .data(let data): return bytes.contains(Array(data))
    case .uuid(let uuid): return bytes.contains(withUnsafeBytes(of: uuid.uuid) { Array($0) })
    case .date(let date): return isFrom(bytes, .real(date.timeIntervalSinceReferenceDate))
    case .real(let number):
        return number.isNaN || bytes.contains(bigEndian(number.bitPattern))
            || bytes.contains(bigEndian(Float(number).bitPattern))
            || Int64(exactly: number).map { isFrom(bytes, .integer($0)) } ?? false
    case .integer(let number):
        return bytes.contains(bigEndian(number))
            || UInt8(exactly: number).map { bytes.contains($0) } ?? false
            || UInt16(exactly: number).map { bytes.contains(bigEndian($0)) } ?? false
            || UInt32(exactly: number).map { bytes.contains(bigEndian($0)) } ?? false
    case .unsigned(let number): return bytes.contains(bigEndian(number))
    default: return true
    }
}

/// A type that takes whatever there is, as deep as it is.
private struct Anything: Decodable {
    init(from decoder: any Decoder) throws {
        if var elements = try? decoder.unkeyedContainer() {
            while !elements.isAtEnd { _ = try elements.decode(Anything.self) }
        } else if let fields = try? decoder.container(keyedBy: Name.self) {
            for name in fields.allKeys { _ = try fields.decode(Anything.self, forKey: name) }
        } else {
            let single = try decoder.singleValueContainer()
            _ = (try? single.decode(Int.self)) == nil && (try? single.decode(Date.self)) == nil
        }
    }

    private struct Name: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }
        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }
}
