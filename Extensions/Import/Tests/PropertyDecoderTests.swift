import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxImport
@testable import LockboxStore

/// `PropertyValue.decode`: exactly, or not at all.
@Suite struct PropertyDecoderTests {
    /// A type that asks for null itself gets it, also in an array, as in JSON decoders.
    @Test func aTypeThatAsksForNullGetsIt() throws {
        enum Anything: Decodable, Equatable {
            case null, text(String)
            init(from decoder: any Decoder) throws {
                let container = try decoder.singleValueContainer()
                self = container.decodeNil() ? .null : .text(try container.decode(String.self))
            }
        }
        let list = PropertyValue.array([.null, .string("a")])
        #expect(try list.decode([Anything].self) == [.null, .text("a")])
        struct Fields: Decodable { var a: String? }
        #expect(throws: DecodingError.self) { try PropertyValue.null.decode(Fields.self) }
    }

    private func decodes<Value: Decodable & Equatable>(
        _ value: PropertyValue,
        _ expected: Value,
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        do {
            let decoded = try value.decode(Value.self)
            #expect(decoded == expected, sourceLocation: sourceLocation)
        } catch {
            Issue.record(error, sourceLocation: sourceLocation)
        }
    }

    /// - Parameter error: ``SourceError`` if the value is of the right kind, but would lose something.
    private func refuses<Failure: Error>(
        _ value: PropertyValue,
        _ types: any Decodable.Type...,
        with error: Failure.Type = DecodingError.self,
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        for type in types {
            #expect(throws: error, "\(type)", sourceLocation: sourceLocation) {
                _ = try value.decode(type)
            }
        }
    }

    @Test func numbers() {
        decodes(.integer(127), Int8(127))
        decodes(.integer(255), UInt8(255))
        decodes(.integer(-1), Int128(-1))
        decodes(.unsigned(.max), UInt64.max)
        decodes(.unsigned(.max), UInt128(UInt64.max))
        decodes(.integer(1 << 53), Double(1 << 53))
        decodes(.integer(1 << 24), Float(1 << 24))
        decodes(.real(5), 5)
        decodes(.real(0.5), Float(0.5))
        decodes(.real(.infinity), Float.infinity)
        decodes(.real(-0.0), -0.0)
        #expect((try? PropertyValue.real(-0.0).decode(Double.self))?.sign == .minus)
        #expect((try? PropertyValue.real(.nan).decode(Float.self))?.isNaN == true)
        decodes(.real(0.5), CGFloat(0.5))
        refuses(.integer(128), Int8.self)
        refuses(.integer(-1), UInt.self, UInt128.self, Bool.self, String.self, Date.self, Data.self)
        refuses(.unsigned(.max), Int.self, Int64.self, Double.self, Float.self)
        refuses(.integer(1 << 53 + 1), Double.self)
        refuses(.integer(1 << 24 + 1), Float.self)
        refuses(.real(0.1), Float.self, Int.self)
        refuses(.real(-0.0), Int.self)
        refuses(.real(.nan), Int.self, UInt64.self, Decimal.self)
        refuses(.real(1e300), Int.self, Float.self, UInt128.self, Decimal.self)
        #if !os(macOS)
            decodes(.real(0.5), Float16(0.5))
            refuses(.real(Double(Float(0.1))), Float16.self)
        #endif
    }

    @Test func decimals() {
        decodes(.integer(.min), Decimal(Int64.min))
        decodes(.unsigned(.max), Decimal(UInt64.max))
        decodes(.real(2.5), Decimal(string: "2.5")!)
        decodes(.real(-0.125), Decimal(string: "-0.125")!)
        decodes(.real(1e20), Decimal(string: "100000000000000000000")!)
        decodes(.real(0), Decimal(0))
        refuses(.real(0.1), Decimal.self)
        refuses(.real(.leastNonzeroMagnitude), Decimal.self)
        refuses(.real(-.infinity), Decimal.self)
        refuses(.string("1"), Decimal.self)
        refuses(.boolean(true), Decimal.self)
        refuses(.dictionary([]), Decimal.self)
    }

    @Test func booleans() {
        decodes(.boolean(true), true)
        decodes(.booleanOrNumber(true), true)
        decodes(.booleanOrNumber(true), 1)
        decodes(.booleanOrNumber(false), 0.0)
        decodes(.booleanOrNumber(true), Decimal(1))
        refuses(.boolean(true), Int.self, UInt8.self, Double.self, String.self)
        refuses(.integer(1), Bool.self)
        refuses(.booleanOrNumber(true), String.self, Date.self)
    }

    @Test func specialTypes() {
        let date = Date(timeIntervalSinceReferenceDate: 0.1)
        let uuid = UUID()
        let url = URL(string: "a", relativeTo: URL(string: "https://example.com/b"))!
        decodes(.date(date), date)
        decodes(.data(Data([1])), Data([1]))
        decodes(.uuid(uuid), uuid)
        decodes(.url(url), url)
        decodes(.string(uuid.uuidString), uuid)
        decodes(.string(uuid.uuidString.lowercased()), uuid)
        decodes(.string("https://example.com/?a=b#c"), URL(string: "https://example.com/?a=b#c")!)
        refuses(.string("not a URL"), URL.self, UUID.self, Date.self, Data.self)
        refuses(.string(""), URL.self)
        refuses(.real(5), Date.self)
        refuses(.array([.integer(1)]), Data.self)
        refuses(.url(url), String.self)
        refuses(.date(date), Double.self, String.self)
        refuses(.data(Data([1])), [UInt8].self, String.self)
    }

    @Test func collections() {
        let list: [PropertyValue] = [.integer(2), .integer(1)]
        decodes(.array(list), [2, 1])
        decodes(.set(list), [2, 1])
        decodes(.orderedSet(list), [2, 1])
        decodes(.set(list), Set([1, 2]))
        decodes(.array(list), Set([1, 2]))
        refuses(.orderedSet(list), Set<Int>.self)
        refuses(.array([.integer(1), .integer(1)]), Set<Int>.self)
        refuses(.set([.integer(1), .real(1)]), Set<Int>.self)
        refuses(.array(list), [String].self, [String: Int].self)
        let pairs: [PropertyValue] = [.integer(5), .string("a"), .integer(6), .string("b")]
        decodes(.array(pairs), [UInt8(5): "a", 6: "b"])
        refuses(.array(pairs + pairs), [UInt8: String].self)
        refuses(.set(pairs), [UInt8: String].self)
        decodes(.array([]), [Int]())
        decodes(.array([.array([.null])]), [[Int?]]([[nil]]))
    }

    @Test func dictionaries() {
        let texts = dictionary([(.string("a"), .integer(1)), (.string("b"), .integer(2))])
        decodes(texts, ["a": 1, "b": 2])
        refuses(texts, [Int: Int].self, [Int].self)
        refuses(dictionary([(.string("5"), .integer(1))]), [Int: Int].self)
        let numbers = dictionary([(.integer(5), .string("x")), (.integer(-1), .string("y"))])
        decodes(numbers, [5: "x", -1: "y"])
        refuses(numbers, [String: String].self, Point.self)
        refuses(dictionary([(.unsigned(.max), .null)]), [Int: Int?].self)
        refuses(dictionary([(.boolean(true), .integer(1))]), [Int: Int].self, [String: Int].self)
        refuses(dictionary([(.string("a"), .null), (.string("a"), .null)]), [String: Int?].self)
        decodes(dictionary([(.integer(5), dictionary([(.string("5"), .integer(1))]))]), [5: ["5": 1]])
    }

    private struct Point: Decodable, Equatable {
        var x: Int
        var name: String?
        var inner: [Point]?
    }

    @Test func structures() {
        let point = dictionary([
            (.string("x"), .integer(1)), (.string("name"), .null),
            (.string("inner"), .array([dictionary([(.string("x"), .integer(2))])])),
        ])
        decodes(point, Point(x: 1, inner: [Point(x: 2)]))
        refuses(dictionary([]), Point.self)
        refuses(dictionary([(.string("x"), .null)]), Point.self)
    }

    /// Everything that there was is decoded, wherever it stands.
    @Test func nothingIsLeftOut() {
        struct Two: Decodable, Equatable {
            var one, two: Int
            init(from decoder: any Decoder) throws {
                var list = try decoder.unkeyedContainer()
                one = try list.decode(Int.self)
                two = try list.decode(Int.self)
            }
        }
        struct Inner: Decodable, Equatable {
            var x: Int
            init(from decoder: any Decoder) throws {
                let fields = try decoder.container(keyedBy: Key.self)
                x = try fields.nestedContainer(keyedBy: Key.self, forKey: .deep).decode(Int.self, forKey: .x)
            }
            enum Key: CodingKey { case deep, x }
        }
        /// Of two parts that each take some of the fields.
        struct Parts: Decodable, Equatable {
            var point: Point
            var inner: Inner
            init(from decoder: any Decoder) throws {
                let whole = try decoder.singleValueContainer()
                point = try whole.decode(Point.self)
                inner = try Inner(from: decoder)
            }
        }
        struct NoFields: Decodable {}
        let x = (PropertyValue.string("x"), PropertyValue.integer(1))
        let extra = (PropertyValue.string("secret"), PropertyValue.string("s"))
        refuses(dictionary([x, extra]), Point.self, Point?.self, with: SourceError.self)
        refuses(.array([dictionary([x, extra])]), [Point].self, with: SourceError.self)
        refuses(
            .array([.integer(1), .integer(2), .integer(3)]),
            Two.self,
            CGPoint.self,
            with: SourceError.self
        )
        refuses(dictionary([(.string("deep"), dictionary([x, extra]))]), Inner.self, with: SourceError.self)
        let inner = dictionary([(.string("deep"), dictionary([x]))])
        #expect((try? inner.decode(Inner.self))?.x == 1)
        let point = (PropertyValue.string("x"), PropertyValue.integer(2))
        let parts = dictionary([point, (.string("deep"), dictionary([x]))])
        #expect((try? parts.decode(Parts.self))?.inner.x == 1)
        refuses(
            dictionary([point, extra, (.string("deep"), dictionary([x]))]),
            Parts.self,
            with: SourceError.self
        )
        refuses(dictionary([extra]), NoFields.self, with: SourceError.self)
    }

    @Test func null() {
        decodes(.null, nil as Int?)
        decodes(.null, nil as Date?)
        decodes(.string("a"), "a" as String?)
        refuses(
            .null,
            Int.self,
            String.self,
            Date.self,
            [Int].self,
            [String: Int].self,
            Bool.self,
            Decimal.self
        )
        refuses(.array([.null]), [Int].self)
    }

    @Test func subclassesAndNestedContainers() throws {
        class Base: Decodable { var base: Int }
        final class Derived: Base {
            let derived: Int
            required init(from decoder: any Decoder) throws {
                let fields = try decoder.container(keyedBy: Key.self)
                derived = try fields.nestedContainer(keyedBy: Key.self, forKey: .inner).decode(
                    Int.self,
                    forKey: .inner
                )
                var list = try fields.nestedUnkeyedContainer(forKey: .list)
                var inner = try list.nestedUnkeyedContainer()
                _ = try inner.decode(Int.self)
                _ = try list.nestedContainer(keyedBy: Key.self)
                guard list.isAtEnd, inner.isAtEnd else { throw CancellationError() }
                try super.init(from: fields.superDecoder())
            }
            enum Key: CodingKey { case inner, list }
        }
        let value = dictionary([
            (.string("inner"), dictionary([(.string("inner"), .integer(1))])),
            (.string("list"), .array([.array([.integer(3)]), dictionary([])])),
            (.string("super"), dictionary([(.string("base"), .integer(2))])),
        ])
        let derived = try value.decode(Derived.self)
        #expect((derived.base, derived.derived) == (2, 1))
    }

    /// A type that asks for itself for ever.
    private struct Endless: Decodable {
        init(from decoder: any Decoder) throws { _ = try decoder.singleValueContainer().decode(Endless.self) }
    }

    @Test func nothingTraps() {
        refuses(.integer(1), Endless.self)
        var deep = PropertyValue.null
        for _ in 0..<600 { deep = .array([deep]) }
        refuses(deep, HostileSourceTests.Nested.self)
        struct Greedy: Decodable {
            init(from decoder: any Decoder) throws {
                var elements = try decoder.unkeyedContainer()
                while true { _ = try elements.decode(Int.self) }
            }
        }
        refuses(.array([.integer(1)]), Greedy.self)
    }

    @Test func errorsShowNoValue() {
        let secrets: [PropertyValue] = [
            .string("secret"), .integer(424_242), .real(4_242.42), .data(Data("secret".utf8)),
            .array([.string("secret")]), dictionary([(.string("x"), .string("secret"))]),
            .array([.string("secret"), .string("secret")]),
        ]
        for value in secrets {
            for type in [Int8.self, Point.self, Date.self, URL.self, [Int].self, Set<String>.self]
                as [any Decodable.Type]
            {
                do { _ = try value.decode(type) } catch {
                    let text = "\(error) \(String(reflecting: error)) \(error.localizedDescription)"
                    #expect(!text.contains("secret") && !text.contains("4242"))
                }
            }
        }
    }

    private func dictionary(_ pairs: [(PropertyValue, PropertyValue)]) -> PropertyValue {
        .dictionary(pairs.map { PropertyValue.Pair(key: $0, value: $1) })
    }

    /// Foundation ends a process that prints one.
    @Test func aDateThatIsNotANumber() {
        let date = PropertyValue.date(Date(timeIntervalSinceReferenceDate: .nan))
        refuses(date, Date.self, with: SourceError.self)
        refuses(.array([date]), [Date].self, with: SourceError.self)
        let infinite = Date(timeIntervalSinceReferenceDate: .infinity)
        decodes(.date(infinite), infinite)
    }
}
