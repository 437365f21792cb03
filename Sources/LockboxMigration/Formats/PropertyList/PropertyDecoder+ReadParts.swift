import LockboxCore

extension PropertyDecoder {
    /// Records which entries or elements of a value have been decoded. The others would be lost with the old
    /// item.
    final class ReadParts {
        var names: Set<String> = []
        private let value: PropertyValue
        private var count = 0
        private var opened: [String: ReadParts] = [:]

        init(_ value: PropertyValue) { self.value = value }

        /// The elements up to this index have been decoded.
        func reach(_ index: Int) { count = max(count, index) }

        /// Records for nested values that are decoded piece by piece.
        func opened(_ value: PropertyValue, _ name: String) -> ReadParts {
            let inner = opened[name] ?? ReadParts(value)
            opened[name] = inner
            return inner
        }

        /// Adds what another part of the type has decoded of the same value.
        func add(_ part: ReadParts) {
            names.formUnion(part.names)
            reach(part.count)
            for (name, inner) in part.opened { opened(inner.value, name).add(inner) }
        }

        var isComplete: Bool {
            guard opened.values.allSatisfy(\.isComplete) else { return false }
            switch value {
            case .dictionary(let pairs): return names.count == pairs.count
            case .array(let elements), .set(let elements), .orderedSet(let elements):
                return count == elements.count
            default: return true
            }
        }
    }
}
