import LockboxPlatform

/// The items for which a Lockbox 2 getter has returned nil without knowing that there are none.
///
/// Such a nil may be archived later, on another thread, or when the store is unlocked again. So it is never forgotten.
package enum UnknownAnswers {
    private static let places = Protected<[ItemKey: [Place]]>([:])

    /// Where an item is.
    private struct Place: @unchecked Sendable {
        // Unchecked: the object is only compared.
        /// Nil for a backend that is a value. Weak, because another object may have its address later.
        weak var backend: AnyObject?
        let isValue: Bool
        let location: String?

        init(_ key: ItemKey, _ lockbox: Lockbox) {
            isValue = lockbox.original != nil
            backend = isValue ? nil : lockbox.backend as AnyObject
            location = lockbox.location(of: key)
        }

        /// Values of the same kind count as the same: to refuse a removal loses nothing.
        func mayBe(_ other: Place) -> Bool {
            if let location, let other = other.location { return location == other }
            return isValue ? other.isValue : backend != nil && backend === other.backend
        }
    }

    package static func add(_ key: ItemKey, of lockbox: Lockbox) {
        let place = Place(key, lockbox)
        places.withLock { places in
            if places[key]?.contains(where: place.mayBe) != true { places[key, default: []].append(place) }
        }
    }

    /// - Throws: ``LockboxError/invalidKey(reason:)`` if nil may be the answer of such a getter.
    static func check(_ key: ItemKey, of lockbox: Lockbox) throws(LockboxError) {
        let known = places.withLock { $0[key] ?? [] }
        if known.isEmpty { return }
        let place = Place(key, lockbox)
        guard known.contains(where: place.mayBe) else { return }
        let key = String(reflecting: key.key)
        throw .invalidKey(
            reason:
                "nil did not remove the item \(key), because a method of Lockbox 2 has returned nil for it although it "
                + "could not be read; read it with unarchiveObject, or remove it with removeObject"
        )
    }
}
