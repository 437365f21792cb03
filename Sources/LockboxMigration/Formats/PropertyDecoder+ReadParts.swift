import LockboxCore

extension PropertyDecoder {
    /// What a type has had of a value's entries or elements. The rest would be lost with the old item.
    final class ReadParts {
        var names: Set<String> = []
        private let value: PropertyValue
        private var count = 0
        private var opened: [String: ReadParts] = [:]

        init(_ value: PropertyValue) { self.value = value }

        /// The first elements have been taken, up to an index.
        func reach(_ index: Int) { count = max(count, index) }

        /// What has been had of a value inside, which is taken piece by piece.
        func opened(_ value: PropertyValue, _ name: String) -> ReadParts {
            let inner = opened[name] ?? ReadParts(value)
            opened[name] = inner
            return inner
        }

        /// What a part of the type has had of the same value.
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
