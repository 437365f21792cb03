import Foundation

/// Writes binary property lists as Foundation on Apple's systems does, and such as nobody would.
enum PropertyListWriter {
    /// Explicitly `Sendable`: Swift 6.2 finds a circular reference when it has to infer that.
    indirect enum Node: Sendable {
        case null
        case boolean(Bool)
        case integer(UInt64, size: Int)
        case real(Double)
        case single(Float)
        case date(Double)
        case data([UInt8])
        case ascii(String)
        case utf16([UInt16])
        case uid(Int)
        case array([Node])
        case set([Node])
        case dictionary([(Node, Node)])
        /// An object that stands elsewhere in the file.
        case reference(Int)
    }

    static func write(_ root: Node) -> [UInt8] {
        var objects: [[UInt8]] = []
        _ = append(root, to: &objects, referenceSize: 4)
        return assemble(objects, referenceSize: 4)
    }

    /// A file of objects as they are, the first at the top unless told otherwise.
    static func assemble(_ objects: [[UInt8]], root: Int = 0, referenceSize: Int = 2) -> [UInt8] {
        var bytes = Array("bplist00".utf8)
        var table: [UInt8] = []
        for object in objects {
            table += bigEndian(UInt64(bytes.count), 4)
            bytes += object
        }
        let start = bytes.count
        bytes += table + [0, 0, 0, 0, 0, 0, 4, UInt8(referenceSize)]
        return bytes + [objects.count, root, start].flatMap { bigEndian(UInt64($0), 8) }
    }

    static func bigEndian(_ number: UInt64, _ size: Int) -> [UInt8] {
        (0..<size).reversed().map { $0 < 8 ? UInt8(truncatingIfNeeded: number >> (8 * $0)) : 0 }
    }

    static func marker(_ kind: UInt8, _ count: Int) -> [UInt8] {
        count < 15
            ? [kind << 4 | UInt8(count)] : [kind << 4 | 0xF, 0x12] + bigEndian(UInt64(count), 4)
    }

    static func append(_ node: Node, to objects: inout [[UInt8]], referenceSize: Int = 2) -> Int {
        if case .reference(let index) = node { return index }
        let index = objects.count
        objects.append([])
        objects[index] = encode(node, &objects, referenceSize)
        return index
    }

    private static func encode(_ node: Node, _ objects: inout [[UInt8]], _ referenceSize: Int) -> [UInt8] {
        switch node {
        case .null: return [0]
        case .boolean(let value): return [value ? 9 : 8]
        case .integer(let value, let size):
            return [0x10 | UInt8(size.trailingZeroBitCount)] + bigEndian(value, size)
        case .real(let value): return [0x23] + bigEndian(value.bitPattern, 8)
        case .single(let value): return [0x22] + bigEndian(UInt64(value.bitPattern), 4)
        case .date(let value): return [0x33] + bigEndian(value.bitPattern, 8)
        case .data(let bytes): return marker(4, bytes.count) + bytes
        case .ascii(let text): return marker(5, text.utf8.count) + text.utf8
        case .utf16(let units): return marker(6, units.count) + units.flatMap { bigEndian(UInt64($0), 2) }
        case .uid(let uid): return uid < 256 ? [0x80, UInt8(uid)] : [0x81] + bigEndian(UInt64(uid), 2)
        case .array(let nodes): return marker(0xA, nodes.count) + references(nodes)
        case .set(let nodes): return marker(0xC, nodes.count) + references(nodes)
        case .dictionary(let pairs):
            return marker(0xD, pairs.count) + references(pairs.map(\.0) + pairs.map(\.1))
        case .reference: return []
        }
        func references(_ nodes: [Node]) -> [UInt8] {
            nodes.flatMap { node in
                bigEndian(UInt64(append(node, to: &objects, referenceSize: referenceSize)), referenceSize)
            }
        }
    }

    // MARK: Keyed archives

    /// An archive of these objects, after `$null`, with a top.
    static func archive(_ objects: [Node]) -> [UInt8] { write(archiveRoot(objects)) }

    static func archiveRoot(_ objects: [Node]) -> Node {
        .dictionary([
            (.ascii("$version"), .integer(100_000, size: 4)),
            (.ascii("$archiver"), .ascii("NSKeyedArchiver")),
            (.ascii("$top"), .dictionary([(.ascii("key"), .uid(1))])),
            (.ascii("$objects"), .array([.ascii("$null")] + objects)),
        ])
    }

    /// An instance whose class is the object with that UID.
    static func instance(class uid: Int, _ fields: (String, Node)...) -> Node {
        .dictionary(fields.map { (.ascii($0), $1) } + [(.ascii("$class"), .uid(uid))])
    }

    static func classNamed(_ names: String...) -> Node {
        .dictionary([
            (.ascii("$classname"), .ascii(names[0])), (.ascii("$classes"), .array(names.map(Node.ascii))),
        ])
    }
}
