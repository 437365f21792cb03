import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxImport
@testable import LockboxStore

private typealias Writer = PropertyListWriter

/// Archives that `NSKeyedArchiver` writes, here and on Apple's systems.
@Suite struct KeyedArchiveTests {
    static func archive(_ object: Any, key: String = "token", secure: Bool = false) -> [UInt8] {
        let archiver = NSKeyedArchiver(requiringSecureCoding: secure)
        archiver.encode(object, forKey: key)
        archiver.finishEncoding()
        return Array(archiver.encodedData)
    }

    private func read(_ bytes: [UInt8], _ key: String = "key") throws -> PropertyValue {
        try KeyedArchive(bytes).value(forKey: key)
    }

    private func fault(_ bytes: [UInt8]) -> SourceError? {
        do { _ = try read(bytes) } catch { return error as? SourceError }
        return nil
    }

    private static let date = Date(timeIntervalSinceReferenceDate: 816_927_956.753_597)
    private static let uuid = UUID()
    private static let url = URL(string: "x?y#z", relativeTo: URL(string: "https://example.com/a/b"))!

    /// Each class that Foundation archives here, and what it is read as.
    static var objects: [(NSObject, PropertyValue)] {
        [
            ("text" as NSString, .string("text")),
            ("" as NSString, .string("")),
            ("ü🔑\0" as NSString, .string("ü🔑\0")),
            (NSMutableString(string: "mutable"), .string("mutable")),
            (NSNumber(value: true), .boolean(true)),
            (NSNumber(value: false), .boolean(false)),
            (NSNumber(value: 0), .integer(0)),
            (NSNumber(value: 1), .integer(1)),
            (NSNumber(value: -1), .integer(-1)),
            (NSNumber(value: 300), .integer(300)),
            (NSNumber(value: 70_000), .integer(70_000)),
            (NSNumber(value: Int64.min), .integer(.min)),
            (NSNumber(value: Int64.max), .integer(.max)),
            (NSNumber(value: UInt64.max), .unsigned(.max)),
            (NSNumber(value: 0.1), .real(0.1)),
            (NSNumber(value: Float(0.1)), .real(Double(Float(0.1)))),
            (NSNumber(value: Double.infinity), .real(.infinity)),
            (date as NSDate, .date(date)),
            (Data([0, 1, 0xFF]) as NSData, .data(Data([0, 1, 0xFF]))),
            (Data(repeating: 7, count: 70_000) as NSData, .data(Data(repeating: 7, count: 70_000))),
            (NSMutableData(data: Data([4])), .data(Data([4]))),
            (NSURL(string: "x?y#z", relativeTo: url.baseURL)!, .url(url)),
            (URL(string: "https://example.com")! as NSURL, .url(URL(string: "https://example.com")!)),
            (uuid as NSUUID, .uuid(uuid)),
            (NSNull(), .null),
            (NSArray(), .array([])),
            (["a", 2, date] as NSArray, .array([.string("a"), .integer(2), .date(date)])),
            (NSMutableArray(array: ["a"]), .array([.string("a")])),
            (NSSet(array: ["a"]), .set([.string("a")])),
            (NSMutableSet(array: [2]), .set([.integer(2)])),
            (NSOrderedSet(), .orderedSet([])),
            (NSOrderedSet(array: ["b", "a", 3]), .orderedSet([.string("b"), .string("a"), .integer(3)])),
            (NSMutableOrderedSet(array: [5]), .orderedSet([.integer(5)])),
            (["k": "v"] as NSDictionary, pairs([(.string("k"), .string("v"))])),
            ([5: ["x": NSNull()]] as NSDictionary, pairs([(.integer(5), pairs([(.string("x"), .null)]))])),
            (NSMutableDictionary(dictionary: [:]), pairs([])),
            (
                [["a": [date, [uuid]]], Set(["s"])] as NSArray,
                .array([
                    pairs([(.string("a"), .array([.date(date), .array([.uuid(uuid)])]))]),
                    .set([.string("s")]),
                ])
            ),
        ]
    }

    private static func pairs(_ pairs: [(PropertyValue, PropertyValue)]) -> PropertyValue {
        .dictionary(pairs.map { PropertyValue.Pair(key: $0, value: $1) })
    }

    @Test(arguments: [true, false]) func everyClass(secure: Bool) throws {
        for (object, expected) in Self.objects {
            #expect(
                try read(Self.archive(object, secure: secure), "token") == expected,
                "\(type(of: object))"
            )
        }
    }

    @Test func doublesToTheLastBit() throws {
        var generator = SystemRandomNumberGenerator()
        for bits in (0..<500).map({ _ in UInt64.random(in: .min ... .max, using: &generator) }) {
            let number = Double(bitPattern: bits)
            guard !number.isNaN,
                case .real(let read) = try read(Self.archive(NSNumber(value: number)), "token")
            else {
                continue
            }
            #expect(read.bitPattern == number.bitPattern)
            let date = try self.read(Self.archive(NSDate(timeIntervalSinceReferenceDate: number)), "token")
            guard case .date(let date) = date else {
                Issue.record("not a date")
                return
            }
            #expect(date.timeIntervalSinceReferenceDate.bitPattern == number.bitPattern)
        }
    }

    @Test func keysAreTheCallers() throws {
        for key in ["token", "", "$token", "$$token", "a.b", "root", "$top"] {
            let archive = try KeyedArchive(Self.archive("value", key: key))
            #expect(archive.keys == [key])
            #expect(try archive.value(forKey: key) == .string("value"))
            for other in [key + "x", "$" + key] {
                #expect(throws: SourceError.noSuchTopKey(other, there: [key])) {
                    try archive.value(forKey: other)
                }
            }
        }
    }

    /// Unlike an NSNull.
    @Test func nilIsNothing() throws {
        let archiver = NSKeyedArchiver(requiringSecureCoding: false)
        archiver.encode(nil, forKey: "token")
        archiver.finishEncoding()
        #expect(throws: SourceError.nothing) { try read(Array(archiver.encodedData), "token") }
    }

    /// Foundation for Linux archives equal objects once, and `true` equals 1.
    @Test func sharedNumbersMayBeBooleans() throws {
        let merged = try read(Self.archive([true, 1] as NSArray), "token")
        #expect(merged == .array([.booleanOrNumber(true), .booleanOrNumber(true)]))
        #expect(try merged.decode([Bool].self) == [true, true])
        #expect(try merged.decode([Int].self) == [1, 1])
        let inContainers = try read(Self.archive([[0], [false], [2]] as NSArray), "token")
        #expect(
            inContainers
                == .array([
                    .array([.booleanOrNumber(false)]), .array([.booleanOrNumber(false)]),
                    .array([.integer(2)]),
                ])
        )
        let alone = try read(Self.archive([true, 0, "a", "a"] as NSArray), "token")
        #expect(alone == .array([.boolean(true), .integer(0), .string("a"), .string("a")]))
        #expect(throws: DecodingError.self) { try alone.decode([Bool].self) }
    }

    // MARK: Forms that Apple's systems write, and Foundation here does not

    @Test func shapesOfApple() throws {
        let uuid = Writer.Node.data(Array(1...16))
        let cases: [([Writer.Node], PropertyValue)] = [
            (
                [
                    Writer.instance(class: 2, ("NS.string", .ascii("mutable"))),
                    Writer.classNamed("NSMutableString", "NSString", "NSObject"),
                ],
                .string("mutable")
            ),
            (
                [
                    Writer.instance(class: 2, ("NS.bytes", .data(Array("ü".utf8)))),
                    Writer.classNamed("NSString", "NSObject"),
                ],
                .string("ü")
            ),
            (
                [
                    Writer.instance(class: 2, ("NS.bytes", .data([1, 2]))),
                    Writer.classNamed("NSData", "NSObject"),
                ],
                .data(Data([1, 2]))
            ),
            (
                [
                    Writer.instance(class: 2, ("NS.data", .data([3]))),
                    Writer.classNamed("NSMutableData", "NSData", "NSObject"),
                ],
                .data(Data([3]))
            ),
            (
                [Writer.instance(class: 2, ("NS.uuidbytes", uuid)), Writer.classNamed("NSUUID", "NSObject")],
                .uuid(UUID(uuid: (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16)))
            ),
            (
                [
                    Writer.instance(class: 3, ("NS.base", .uid(2)), ("NS.relative", .uid(4))),
                    Writer.instance(class: 3, ("NS.base", .uid(0)), ("NS.relative", .uid(5))),
                    Writer.classNamed("NSURL", "NSObject"), .ascii("c.xml"),
                    .ascii("https://example.com/a/b"),
                ],
                .url(URL(string: "c.xml", relativeTo: URL(string: "https://example.com/a/b"))!)
            ),
            (
                [
                    Writer.instance(class: 2, ("NS.time", .integer(5, size: 1))),
                    Writer.classNamed("NSDate", "NSObject"),
                ],
                .date(Date(timeIntervalSinceReferenceDate: 5))
            ),
            (
                [
                    Writer.instance(class: 2, ("NS.number", .real(2.5))),
                    Writer.classNamed("NSNumber", "NSValue", "NSObject"),
                ],
                .real(2.5)
            ),
            (
                [
                    Writer.instance(class: 2, ("NS.object.0", .uid(3)), ("NS.object.1", .uid(4))),
                    Writer.classNamed("NSMutableArray", "NSArray", "NSObject"), .utf16(Array("ü".utf16)),
                    .single(0.5),
                ],
                .array([.string("ü"), .real(0.5)])
            ),
        ]
        for (objects, expected) in cases { #expect(try read(Writer.archive(objects)) == expected) }
        let base = try read(Writer.archive(cases[5].0))
        guard case .url(let url) = base else {
            Issue.record("not a URL")
            return
        }
        #expect(url.absoluteString == "https://example.com/a/c.xml")
        #expect(url.relativeString == "c.xml")
    }

    /// Apple's systems write them like this; Foundation here cannot.
    private func decimal(
        _ mantissa: [UInt8],
        _ exponent: Int,
        length: Int,
        isNegative: Bool = false,
        order: UInt64 = 1
    ) -> [UInt8] {
        let words = Array((mantissa + [UInt8](repeating: 0, count: 16)).prefix(16))
        return Writer.archive([
            Writer.instance(
                class: 2,
                ("NS.compact", .boolean(true)),
                ("NS.exponent", .integer(UInt64(bitPattern: Int64(exponent)), size: 8)),
                ("NS.length", .integer(UInt64(length), size: 1)),
                ("NS.mantissa", .data(words)),
                ("NS.mantissa.bo", .integer(order, size: 1)),
                ("NS.negative", .boolean(isNegative))
            ),
            Writer.classNamed("NSDecimalNumber", "NSNumber", "NSValue", "NSObject"),
        ])
    }

    @Test func decimalNumbers() throws {
        func read(_ bytes: [UInt8]) throws -> Decimal { try self.read(bytes).decode(Decimal.self) }
        #expect(try read(decimal([0xD2, 4], -2, length: 1)) == Decimal(string: "12.34"))
        #expect(try read(decimal([4, 0xD2], -2, length: 1, order: 2)) == Decimal(string: "12.34"))
        #expect(try read(decimal([0xD2, 4], -2, length: 1, isNegative: true)) == Decimal(string: "-12.34"))
        #expect(try read(decimal([1], 20, length: 1)) == Decimal(string: "1e20"))
        #expect(try read(decimal([0, 0, 1], 0, length: 2)) == 65_536)
        #expect(try "\(read(decimal([0xE8, 3], -2, length: 1)))" == "10", "1,000 hundredths")
        #expect(try read(decimal([], 0, length: 0)) == 0)
        #expect(
            try read(decimal([1], -128, length: 1)) == Decimal(sign: .plus, exponent: -128, significand: 1)
        )
        let most = [UInt8](repeating: 0xFF, count: 16)
        #expect(try read(decimal(most, 127, length: 8)) == Decimal.greatestFiniteMagnitude)
        #expect(throws: DecodingError.self) { try self.read(decimal([5], 0, length: 1)).decode(Double.self) }
        for damaged in [
            decimal([], 0, length: 0, isNegative: true), decimal([1], 128, length: 1),
            decimal([1], -129, length: 1), decimal([1], 0, length: 9),
            decimal([1], 0, length: 1, order: 0),
        ] { #expect(fault(damaged) != nil) }
    }

    /// Equal texts are archived once, and there may be many.
    @Test func oneLongTextManyTimes() throws {
        let texts = Array(repeating: String(repeating: "t", count: 256), count: 1000)
        #expect(try read(Self.archive(texts as NSArray), "token").decode([String].self) == texts)
        let list = try PropertyListSerialization.data(
            fromPropertyList: ["A": texts],
            format: .binary,
            options: 0
        )
        let file = try SourceFile(bytes: Array(list), format: .propertyList)
        #expect(try file.value(forName: "A").decode([String].self) == texts)
        // But what could not be stored is not made.
        let half = Array(repeating: String(repeating: "t", count: 1 << 20), count: 17)
        #expect(throws: SourceError.tooLarge) { try read(Self.archive(half as NSArray), "token") }
    }

    @Test func refusals() throws {
        let array = Writer.classNamed("NSArray", "NSObject")
        let dictionary = Writer.classNamed("NSDictionary", "NSObject")
        let long = String(repeating: "Evil\n", count: 1000)
        let cases: [([Writer.Node], SourceError)] = [
            (
                [Writer.instance(class: 2), Writer.classNamed("NSError", "NSObject")],
                .unknownClass("NSError")
            ),
            (
                [Writer.instance(class: 2), Writer.classNamed("MyArray", "NSArray", "NSObject")],
                .unknownClass("MyArray")
            ),
            (
                [Writer.instance(class: 2), Writer.classNamed(long)],
                .unknownClass(String(String(repeating: "Evil?", count: 13).prefix(64)))
            ),
            ([.uid(1)], .malformed("an object has no class")),
            ([.array([])], .malformed("an object has no class")),
            ([.null], .malformed("an object has no class")),
            ([.dictionary([])], .malformed("an object has no class")),
            ([Writer.instance(class: 9)], .malformed("an object has no class")),
            ([.ascii("$null")], .unsupported("a string cannot be distinguished from nil")),
            ([Writer.instance(class: 2, ("NS.objects", .array([.uid(1)]))), array], .tooDeep),
            ([Writer.instance(class: 2, ("NS.objects", .array([.uid(7)]))), array], Self.dangling),
            ([Writer.instance(class: 2), array], Self.notAs("NSArray")),
            ([Writer.instance(class: 2, ("NS.objects", .ascii("x"))), array], Self.notAs("NSArray")),
            (
                [Writer.instance(class: 2, ("NS.objects", .array([])), ("x", .null)), array],
                Self.notAs("NSArray")
            ),
            (
                [Writer.instance(class: 2, ("NS.object.1", .uid(0))), array], Self.notAs("NSArray")
            ),
            (
                [
                    Writer.instance(class: 2, ("NS.keys", .array([.uid(0)])), ("NS.objects", .array([]))),
                    dictionary,
                ],
                .malformed("a dictionary has different numbers of keys and values")
            ),
            (
                [
                    Writer.instance(
                        class: 2,
                        ("NS.keys", .array([.uid(3), .uid(4)])),
                        ("NS.objects", .array([.uid(3), .uid(3)]))
                    ), dictionary, .ascii("a"), .ascii("a"),
                ],
                .malformed("a dictionary contains a key twice")
            ),
            (
                [Writer.instance(class: 2, ("NS.time", .ascii("5"))), Writer.classNamed("NSDate")],
                Self.notAs("NSDate")
            ),
            (
                [Writer.instance(class: 2, ("NS.uuidbytes", .data([1]))), Writer.classNamed("NSUUID")],
                Self.notAs("NSUUID")
            ),
            (
                [Writer.instance(class: 2, ("NS.bytes", .data([0xFF]))), Writer.classNamed("NSString")],
                .notUTF8
            ),
            (
                [
                    Writer.instance(class: 2, ("NS.base", .uid(0)), ("NS.relative", .uid(3))),
                    Writer.classNamed("NSURL"), .ascii("not a URL"),
                ],
                .unsupported("an address is not a valid URL")
            ),
        ]
        for (objects, expected) in cases { #expect(fault(Writer.archive(objects)) == expected) }
    }

    private static let dangling = SourceError.malformed("an archive refers to a missing object")
    private static func notAs(_ name: String) -> SourceError {
        .malformed("an \(name) is not as NSKeyedArchiver writes it")
    }

    @Test func noArchives() throws {
        let list: [String: Any] = [
            "$archiver": "NSKeyedArchiver", "$version": 100_000, "$top": [:] as [String: Any],
        ]
        func data(_ format: PropertyListSerialization.PropertyListFormat) throws -> [UInt8] {
            Array(try PropertyListSerialization.data(fromPropertyList: list, format: format, options: 0))
        }
        #expect(fault([]) == .notAnArchive)
        #expect(fault(Array("testing".utf8)) == .notAnArchive)
        #expect(fault(Array("<?xml version=\"1.0\"?><note/>".utf8)) == .notAnArchive, "a text of Lockbox 2")
        for format in [PropertyListSerialization.PropertyListFormat.xml, .binary] {
            #expect(try fault(data(format)) == .malformed("an archive has no $objects or no $top"))
        }
        #expect(fault(Writer.write(.array([]))) == .notAnArchive)
        #expect(fault(Writer.write(.dictionary([(.ascii("a"), .null)]))) == .notAnArchive)
        let other = Writer.write(
            .dictionary([
                (.ascii("$archiver"), .ascii("NSKeyedArchiver")), (.ascii("$version"), .integer(5, size: 1)),
            ])
        )
        #expect(fault(other) == .unsupported("its archive version is not supported"))
        #expect(fault(Array("bplist00".utf8)) == .malformed("it is cut short"))
    }

    /// JSON in an NSData, as Strongbox archives every Codable.
    @Test func strongbox() throws {
        struct Session: Codable, Equatable {
            var user: String
            var expires: Date
            var key: Data
            var number: Decimal?
        }
        let session = Session(user: "ü", expires: Self.date, key: Data([1]), number: Decimal(string: "0.1"))
        let archive = try KeyedArchive(Self.archive(try JSONEncoder().encode(session)))
        #expect(try archive.json(Session.self, forKey: "token") == session)
        let wrong = SourceError.notDecodable(type: "Int")
        #expect(throws: wrong) { try archive.json(Int.self, forKey: "token") }
        #expect(!wrong.description.contains("ü"))
        #expect(throws: SourceError.notDecodable(type: "String")) {
            try KeyedArchive(Self.archive("no data")).json(String.self, forKey: "token")
        }
        #expect(try KeyedArchive(Self.archive(Data("5".utf8))).json(Int.self, forKey: "token") == 5)
    }
}
