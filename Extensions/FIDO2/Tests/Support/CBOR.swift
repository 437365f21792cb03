#if FIDO2
    /// The part of CBOR (RFC 8949) that CTAP uses.
    indirect enum CBOR: Equatable {
        case unsigned(Int), negative(Int), bytes([UInt8]), text(String), array([CBOR]), map([Pair]), bool(
            Bool
        )

        struct Pair: Equatable {
            let key: CBOR
            let value: CBOR
        }

        static func map(_ pairs: [(CBOR, CBOR)]) -> CBOR { .map(pairs.map { Pair(key: $0.0, value: $0.1) }) }

        static let empty = CBOR.map([Pair]())

        static func integer(_ value: Int) -> CBOR { value < 0 ? .negative(value) : .unsigned(value) }

        subscript(key: CBOR) -> CBOR? {
            guard case .map(let pairs) = self else { return nil }
            return pairs.first { $0.key == key }?.value
        }

        subscript(key: Int) -> CBOR? { self[.integer(key)] }
        subscript(key: String) -> CBOR? { self[.text(key)] }

        var data: [UInt8]? { if case .bytes(let bytes) = self { bytes } else { nil } }
        var string: String? { if case .text(let text) = self { text } else { nil } }
        var number: Int? { if case .unsigned(let number) = self { number } else { nil } }
        var elements: [CBOR] { if case .array(let elements) = self { elements } else { [] } }

        // MARK: Bytes

        var encoded: [UInt8] {
            switch self {
            case .unsigned(let value): Self.head(0, value)
            case .negative(let value): Self.head(1, -1 - value)
            case .bytes(let bytes): Self.head(2, bytes.count) + bytes
            case .text(let text): Self.head(3, text.utf8.count) + Array(text.utf8)
            case .array(let elements): Self.head(4, elements.count) + elements.flatMap(\.encoded)
            case .map(let pairs):
                Self.head(5, pairs.count) + pairs.flatMap { $0.key.encoded + $0.value.encoded }
            case .bool(let value): [value ? 0xf5 : 0xf4]
            }
        }

        private static func head(_ kind: UInt8, _ value: Int) -> [UInt8] {
            if value < 24 { return [kind << 5 | UInt8(value)] }
            if value < 256 { return [kind << 5 | 24, UInt8(value)] }
            return [kind << 5 | 25, UInt8(value >> 8), UInt8(value & 0xff)]
        }

        /// Reads one value from the front of some bytes, and removes it there.
        init?(_ bytes: inout ArraySlice<UInt8>) {
            guard let first = bytes.popFirst() else { return nil }
            if first == 0xf4 || first == 0xf5 {
                self = .bool(first == 0xf5)
                return
            }
            var value = Int(first & 31)
            if value >= 24 {
                guard value <= 25, bytes.count >= value - 23 else { return nil }
                let length = value - 23
                value = bytes.prefix(length).reduce(0) { $0 << 8 | Int($1) }
                bytes.removeFirst(length)
            }
            switch first >> 5 {
            case 0: self = .unsigned(value)
            case 1: self = .negative(-1 - value)
            case 2, 3:
                guard bytes.count >= value else { return nil }
                let content = Array(bytes.prefix(value))
                bytes.removeFirst(value)
                self = first >> 5 == 2 ? .bytes(content) : .text(String(decoding: content, as: UTF8.self))
            case 4: self = .array((0..<value).compactMap { _ in CBOR(&bytes) })
            case 5:
                var pairs: [(CBOR, CBOR)] = []
                for _ in 0..<value {
                    guard let key = CBOR(&bytes), let value = CBOR(&bytes) else { return nil }
                    pairs.append((key, value))
                }
                self = .map(pairs)
            default: return nil
            }
        }
    }
#endif
