import LockboxCore

extension BinaryPropertyList {
    /// Returns the entries of the top-level dictionary.
    func entries() throws(SourceError) -> [(name: String, value: Reference)] {
        guard case .dictionary(let keys, let values) = try object(root) else {
            throw .unsupported("its top-level object is not a dictionary")
        }
        var entries: [(name: String, value: Reference)] = []
        for (key, value) in zip(keys, values) {
            guard case .string(let name) = try object(key) else { throw .malformed("a key is not a string") }
            entries.append((name, value))
        }
        return entries
    }

    /// Returns the property list without some entries of its top-level dictionary. The bytes of all other
    /// objects stay the same, except for the numbers by which objects refer to each other.
    func removing(_ names: Set<String>) throws(SourceError) -> [UInt8] {
        let entries = try entries()
        let kept = entries.indices.filter { !names.contains(entries[$0].name) }
        var order = [root]
        var numbers = [root: 0]
        var position = 0
        while position < order.count {
            for child in try children(order[position], kept: kept) where numbers[child] == nil {
                numbers[child] = order.count
                order.append(child)
            }
            position += 1
        }
        var output = Self.magic
        let size = Self.size(of: order.count)
        var offsets: [Int] = []
        for reference in order {
            offsets.append(output.count)
            try output += header(reference, kept: kept)
            for child in try children(reference, kept: kept) { output += Self.bytes(numbers[child]!, size) }
        }
        let offsetSize = Self.size(of: output.count)
        let tableStart = output.count
        for offset in offsets { output += Self.bytes(offset, offsetSize) }
        output += [0, 0, 0, 0, 0, 0, UInt8(offsetSize), UInt8(size)]
        return output + Self.bytes(order.count, 8) + Self.bytes(0, 8) + Self.bytes(tableStart, 8)
    }

    private func children(_ reference: Reference, kept: [Int]) throws(SourceError) -> [Reference] {
        let extent = try extent(of: reference)
        guard extent.isContainer else { return [] }
        let all = try references(bytes[extent.payload])
        return reference == root ? kept.map { all[$0] } + kept.map { all[extent.count + $0] } : all
    }

    /// Returns an object's bytes without its references.
    private func header(_ reference: Reference, kept: [Int]) throws(SourceError) -> [UInt8] {
        let extent = try extent(of: reference)
        if reference == root {
            return kept.count < 15
                ? [0xD0 | UInt8(kept.count)] : [0xDF, 0x13] + Self.bytes(kept.count, 8)
        }
        return Array(
            bytes[extent.start..<(extent.isContainer ? extent.payload.lowerBound : extent.payload.upperBound)]
        )
    }

    /// Returns the number of bytes for each number up to and including `count`, as Foundation computes it.
    private static func size(of count: Int) -> Int { count < 1 << 8 ? 1 : count < 1 << 16 ? 2 : 4 }

    private static func bytes(_ number: Int, _ size: Int) -> [UInt8] {
        (0..<size).map { UInt8(truncatingIfNeeded: number >> (8 * (size - 1 - $0))) }
    }
}
