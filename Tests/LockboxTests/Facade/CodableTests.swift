import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// Values of every kind, through the default backend.
@Suite struct CodableTests {
    private let store: TestStore
    private let lockbox: Lockbox

    init() throws {
        store = try TestStore()
        lockbox = try store.lockbox()
    }

    private func roundTrip<Value: Codable>(_ value: Value) throws -> Value {
        try lockbox.archiveObject(value, forKey: "key")
        return try #require(try lockbox.unarchiveObject(Value.self, forKey: "key"))
    }

    private func expectRoundTrip<Value: Codable & Equatable>(
        _ values: Value...,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        for value in values { #expect(try roundTrip(value) == value, sourceLocation: sourceLocation) }
    }

    @Test func stringsAndBooleans() throws {
        try expectRoundTrip("", "a", "🔑\0\u{202E}", String(repeating: "long ", count: 10_000))
        try expectRoundTrip(true, false)
    }

    @Test func integersOfEveryWidth() throws {
        func check<Integer: FixedWidthInteger & Codable>(_ type: Integer.Type) throws {
            try expectRoundTrip(Integer.min, .max, 0, 1, Integer.max / 3)
        }
        try check(Int.self)
        try check(Int8.self)
        try check(Int16.self)
        try check(Int32.self)
        try check(Int64.self)
        try check(Int128.self)
        try check(UInt.self)
        try check(UInt8.self)
        try check(UInt16.self)
        try check(UInt32.self)
        try check(UInt64.self)
        try check(UInt128.self)
    }

    @Test func floatingPoint() throws {
        let doubles = [
            0, -0.0, 1.1, .pi, .infinity, -.infinity, .nan, .leastNonzeroMagnitude, .greatestFiniteMagnitude,
            0.1 + 0.2,
        ]
        for double in doubles {
            let back = try roundTrip(double)
            #expect(double.isNaN ? back.isNaN : back.bitPattern == double.bitPattern, "\(double)")
        }
        for float in [
            Float(0.1), -0.0, .infinity, -.infinity, .nan, .leastNonzeroMagnitude, .greatestFiniteMagnitude,
        ] {
            let back = try roundTrip(float)
            #expect(float.isNaN ? back.isNaN : back.bitPattern == float.bitPattern, "\(float)")
        }
        try expectRoundTrip([1.5, .infinity, -.infinity])
        expectError(.decodingFailed, "a text is no number") { try readAsDouble("NaN") }
        expectError(.decodingFailed) { try readAsDouble("Infinity") }
    }

    private func readAsDouble(_ text: String) throws -> Double? {
        try lockbox.archiveObject(text, forKey: "text")
        return try lockbox.unarchiveObject(Double.self, forKey: "text")
    }

    @Test func decimals() throws {
        try expectRoundTrip(
            Decimal(string: "0.1")!,
            Decimal(string: "-12345678901234567890123456789012345678")!,
            Decimal(0),
            Decimal(string: "1e-100")!
        )
    }

    @Test func datesExactToTheLastBit() throws {
        var generator = SystemRandomNumberGenerator()
        var dates = (0..<1000).map { _ in
            Date(timeIntervalSinceReferenceDate: .random(in: -1e10...1e10, using: &generator))
        }
        dates += [.distantPast, .distantFuture, Date(timeIntervalSinceReferenceDate: -0.0)]
        let back = try roundTrip(dates)
        #expect(
            back.map(\.timeIntervalSinceReferenceDate.bitPattern)
                == dates.map(\.timeIntervalSinceReferenceDate.bitPattern)
        )
        try expectRoundTrip(dates[0])
    }

    @Test func dataUpToTheLimit() throws {
        for size in [0, 1, 1 << 20, 16 << 20] {
            let data = Data(repeating: 0xA5, count: size)
            try expectRoundTrip(data)
        }
        let tooLarge = Data(count: (16 << 20) + 1)
        guard
            case .valueTooLarge(size: 16_777_217, limit: 16_777_216) = lockboxError({
                try lockbox.archiveObject(tooLarge, forKey: "key")
            })
        else {
            Issue.record("one byte too many was not refused")
            return
        }
        #expect(
            try lockbox.unarchiveObject(Data.self, forKey: "key")?.count == 16 << 20,
            "the old value is still there"
        )
        expectError(.valueTooLarge) {
            try lockbox.archiveObject(tooLarge.base64EncodedString(), forKey: "key")
        }
    }

    @Test func foundationTypes() throws {
        try expectRoundTrip(
            URL(string: "https://user:pass@example.com/a/b?c=d#e")!,
            URL(fileURLWithPath: "/tmp/ä b")
        )
        try expectRoundTrip(UUID(), UUID(uuidString: "00000000-0000-0000-0000-000000000000")!)
    }

    private enum Color: String, Codable, CodingKeyRepresentable { case red, green }

    @Test func collections() throws {
        try expectRoundTrip([String](), ["a", "-|-", ""])
        try expectRoundTrip(Set([1, 2, 3]), Set<Int>())
        try expectRoundTrip([String: Int](), ["a": 1])
        try expectRoundTrip([1: "one", -2: "minus two"])
        try expectRoundTrip([Color.red: 1, .green: 2])
        try expectRoundTrip([[["deep": [1: Data([1, 2, 3])]]]])
    }

    @Test func nestedOptionals() throws {
        try expectRoundTrip([1, nil, 3] as [Int?])
        try expectRoundTrip(["a": nil, "b": "c"] as [String: String?])
        try lockbox.archiveObject(Data([1]) as Data??, forKey: "optional")
        #expect(try lockbox.unarchiveObject(Data?.self, forKey: "optional") == .some(Data([1])))
    }

    @Test func deepNestingIsRefusedBeforeItIsStored() throws {
        indirect enum Chain: Codable, Equatable { case end, link(Chain) }
        func chain(_ length: Int) -> Chain { (0..<length).reduce(.end) { chain, _ in .link(chain) } }
        // Two levels a link. A value that is accepted is also read, up to the limit and beyond.
        for length in 250...260 {
            do { try lockbox.archiveObject(chain(length), forKey: "deep") } catch LockboxError.encodingFailed
            { break }
            #expect(try lockbox.unarchiveObject(Chain.self, forKey: "deep") == chain(length))
        }
        try expectRoundTrip(chain(200))
        expectError(.encodingFailed) { try lockbox.archiveObject(chain(600), forKey: "key") }
        #expect(try lockbox.unarchiveObject(Chain.self, forKey: "key") == chain(200))
        try expectRoundTrip(String(repeating: "[\"{", count: 1000))
    }

    // MARK: Other versions, other types

    private struct AccountV1: Codable, Equatable { var name: String }
    private struct AccountV2: Codable, Equatable {
        var name: String
        var nickname: String?
    }
    private struct AccountV3: Codable, Equatable {
        var name: String
        var number: Int
    }

    @Test func structsOfOtherVersionsOfTheApp() throws {
        try lockbox.archiveObject(AccountV2(name: "A", nickname: "B"), forKey: "account")
        #expect(try lockbox.unarchiveObject(forKey: "account") == AccountV1(name: "A"), "a field more")
        try lockbox.archiveObject(AccountV1(name: "A"), forKey: "account")
        #expect(
            try lockbox.unarchiveObject(forKey: "account") == AccountV2(name: "A"),
            "an optional field less"
        )
        let before = try store.snapshot()
        expectError(.decodingFailed) { try lockbox.unarchiveObject(AccountV3.self, forKey: "account") }
        #expect(try store.snapshot() == before)
        #expect(try lockbox.unarchiveObject(forKey: "account") == AccountV1(name: "A"))
    }

    @Test func anotherTypeIsATypedError() throws {
        try lockbox.archiveObject("text", forKey: "string")
        try lockbox.archiveObject(Data([1, 2]), forKey: "data")
        try lockbox.archiveObject([1, 2], forKey: "array")
        let before = try store.snapshot()
        expectError(.decodingFailed) { try lockbox.unarchiveObject(Int.self, forKey: "string") }
        expectError(.typeMismatch) { try lockbox.unarchiveObject(Data.self, forKey: "string") }
        expectError(.typeMismatch) { try lockbox.unarchiveObject(String.self, forKey: "data") }
        expectError(.decodingFailed) { try lockbox.unarchiveObject([String].self, forKey: "array") }
        #expect(try store.snapshot() == before)
        #expect(try lockbox.unarchiveObject(forKey: "string") == "text")
        #expect(try lockbox.unarchiveObject(forKey: "data") == Data([1, 2]))
        #expect(try lockbox.unarchiveObject(forKey: "array") == [1, 2])
    }

    @Test func encoderThatThrowsHalfWayLeavesTheOldValue() throws {
        struct Halting: Codable {
            struct Stop: Error {}
            func encode(to encoder: any Encoder) throws {
                var container = encoder.unkeyedContainer()
                try container.encode("half of it")
                throw Stop()
            }
            init() {}
            init(from decoder: any Decoder) throws { throw Stop() }
        }
        try lockbox.archiveObject("old", forKey: "key")
        let before = try store.snapshot()
        guard
            case .encodingFailed(key: "key", underlying: is Halting.Stop) = lockboxError({
                try lockbox.archiveObject(Halting(), forKey: "key")
            })
        else {
            Issue.record("not the typed error with the encoder's own inside")
            return
        }
        #expect(try store.snapshot() == before)
        #expect(try lockbox.unarchiveObject(forKey: "key") == "old")
    }

    // MARK: Values that cannot be read again, and why

    /// Encoders accept more than decoders.
    @Test func whatCannotBeDecodedAgainIsRefused() throws {
        struct Price: Codable { var amount: Decimal }
        struct Written: Encodable { var amount: Decimal }
        struct Strict: Codable {
            var number: Int
            init(number: Int) { self.number = number }
            init(from decoder: any Decoder) throws {
                number = try decoder.container(keyedBy: CodingKeys.self).decode(Int.self, forKey: .number)
                if number > 9 {
                    throw DecodingError.dataCorrupted(
                        .init(codingPath: [CodingKeys.number], debugDescription: "\(number)")
                    )
                }
            }
        }
        try lockbox.archiveObject("old", forKey: "key")
        let before = try store.snapshot()
        let writes: [() throws -> Void] = [
            { try lockbox.archiveObject(Decimal.nan, forKey: "key") },
            { try lockbox.archiveObject([1, Decimal.nan], forKey: "key") },
            { try lockbox.archiveObject(Price(amount: .nan), forKey: "key") },
            { try lockbox.archiveObject(Price(amount: .nan) as Price?, forKey: "key") },
            { try lockbox.archiveObject(Written(amount: .nan), forKey: "key") },
            { try lockbox.archiveObject(Strict(number: 10), forKey: "key") },
            { try lockbox.update("decimal", as: Decimal.self) { $0 = .nan } },
        ]
        for (number, write) in writes.enumerated() {
            let error = lockboxError(write)
            #expect(error?.code == .encodingFailed, "\(number)")
            #expect(error?.description.contains("it could not be decoded again") == true, "\(number)")
        }
        #expect(try store.snapshot() == before)
        try expectRoundTrip(Decimal.greatestFiniteMagnitude, .leastNonzeroMagnitude, -1)
        try lockbox.archiveObject(Written(amount: 1), forKey: "key")
    }

    /// The member, and never its value, nor a key of a dictionary.
    @Test func aFailedDecodingNamesTheMember() throws {
        struct Old: Codable { var name: String, tags: [[String: String]] }
        struct New: Codable { var name: String, tags: [[String: String]], number: Int }
        struct Other: Codable { var name: Int, tags: [[String: String]] }
        struct Tags: Codable { var name: String, tags: [[String: Int]] }
        try lockbox.archiveObject(Old(name: "s3cret", tags: [["hunter2": "s3cret"]]), forKey: "key")
        func text<Value: Decodable>(_ type: Value.Type) -> String {
            lockboxError { _ = try lockbox.unarchiveObject(type, forKey: "key") }?.description ?? ""
        }
        #expect(
            text(New.self)
                == #"The value for the key "key" could not be decoded as New: there is no number. Ask for the type that was archived, or have New read the older form too."#
        )
        #expect(text(Other.self).contains(": name is not of the type Int."))
        #expect(text(Tags.self).contains(": tags[0].… is not of the type Int."))
        #expect(text(Int.self).contains("as Int: it is not of the type Int."))
        for text in [text(New.self), text(Other.self), text(Tags.self)] {
            #expect(!text.contains("s3cret") && !text.contains("hunter2"))
        }
        struct Deep: Encodable {
            func encode(to encoder: any Encoder) throws {
                throw EncodingError.invalidValue("s3cret", .init(codingPath: [], debugDescription: "s3cret"))
            }
        }
        let encoding = lockboxError { try lockbox.archiveObject(Deep(), forKey: "key") }?.description
        #expect(encoding?.contains("encoded: it has a value that cannot be encoded") == true)
        #expect(encoding?.contains("s3cret") == false)
    }
}
