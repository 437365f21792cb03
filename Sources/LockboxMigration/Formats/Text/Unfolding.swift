import LockboxCore

/// Limits the expansion of objects that refer to each other. Each object is created once, and the expanded size
/// of shared objects is counted, because a few bytes can describe more values than fit into memory.
final class Unfolding {
    private struct Known {
        let value: PropertyValue
        let weight: Int
        let length: Int
        let height: Int
    }

    private var known: [Int: Known] = [:]
    private var weight = 0
    private var length = 0
    private var depth = 0
    /// The maximum depth reached in the current object.
    private var deepest = 0
    private let limit: Int

    /// - Parameter size: The size of the file in bytes. Expanded, it may have 65,536 values plus 16 for each byte,
    ///   and as many bytes as a value can have.
    init(size: Int) { limit = 16 * size + 64 << 10 }

    /// Returns the value of an object of `length` bytes, which `make` creates the first time.
    func value(
        of object: Int,
        length: Int,
        _ make: () throws(SourceError) -> PropertyValue
    ) throws(SourceError) -> PropertyValue {
        if let known = known[object] {
            try charge(known.weight, length: known.length)
            try reach(depth + known.height)
            return known.value
        }
        let (weight, before, deepest) = (weight, self.length, deepest)
        try charge(1, length: length)
        try reach(depth + 1)
        depth += 1
        self.deepest = depth
        defer {
            depth -= 1
            self.deepest = max(deepest, self.deepest)
        }
        let value = try make()
        known[object] = Known(
            value: value,
            weight: self.weight - weight,
            length: self.length - before,
            height: self.deepest - depth + 1
        )
        return value
    }

    /// Counts bytes that are not values.
    func charge(_ weight: Int, length: Int = 0) throws(SourceError) {
        self.weight += weight
        self.length += length
        guard self.weight <= limit, self.length <= ArchivedValue.maximumSize else { throw .tooLarge }
    }

    private func reach(_ depth: Int) throws(SourceError) {
        guard depth <= PropertyValue.maximumDepth else { throw .tooDeep }
        deepest = max(deepest, depth)
    }
}
