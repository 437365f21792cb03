package import LockboxCore
import LockboxPlatform

/// Stores items that come from elsewhere, such as a backup.
package struct ItemReceiver {
    /// The place of an item in the store.
    package struct Place {
        package let occupant: Occupant
        /// The item, in a class that is as well protected as that of the occupant, too: an attacker may have made it.
        package let item: StoredItem
    }

    /// The present contents of an item's place.
    package enum Occupant {
        /// No item, or an expired one.
        case absent
        case same
        /// A different item.
        case other
        /// Bytes that no program can read any more.
        case damaged
        /// A link, a folder, or a file of unsafe permissions: no item, or not safe to use. It is set aside before an item
        /// is stored there, because its bytes may be whole.
        case blocked(UnreadableItem)
        /// A record that cannot be read now, or not by this program, and may be whole. Nothing takes its place.
        case unreadable(UnreadableItem)
    }

    private let reader: ItemReader
    private let writer: ItemWriter
    private let today = world.date

    private var keys: KeyStore { reader.keys }
    private var storage: any RecordStorage { reader.storage }

    package init(for backend: SealedBackend) throws {
        (reader, writer) = (backend.reader, backend.writer)
        // Another process may have changed them.
        if try keys.keyring(creating: false) != nil { _ = try keys.currentKeyring() }
    }

    /// - Throws: ``LockboxError/interactionNotAllowed(_:)`` if there is a locked item.
    package func place(of item: StoredItem) throws -> Place {
        guard let keyring = try keys.keyring(creating: false) else {
            return Place(occupant: .absent, item: item)
        }
        return try look(at: reader.itemRecord(of: item.key, keyring), keyring, for: item).content
    }

    /// - Throws: ``LockboxError`` if the item of a place is locked, must not be in the store, or does not fit into it.
    package func checkIsStorable(_ item: StoredItem) throws {
        let accessibility = item.attributes.accessibility
        let keyring = try keys.keyring(creating: false)
        if let keyring, !keyring.isOpen(accessibility) {
            throw LockboxError.interactionNotAllowed(accessibility)
        }
        try reader.checkIsAllowed(accessibility, for: item.key, in: nil)
        // The storage's limit is less than the format's: only a trial tells whether it fits.
        if let keyring, item.value.data.count > writer.maximumValueSize {
            _ = try writer.seal(item, into: reader.itemRecord(of: item.key, keyring), with: keyring)
        }
    }

    /// Stores the items that a closure chooses, together.
    ///
    /// - Parameter isChosen: Called with the place of each, and again whenever another writer has changed it. If something cannot be set
    ///   aside, it is called once more, with ``Occupant/unreadable(_:)``.
    package func store(_ items: [StoredItem], where isChosen: (Place) throws -> Bool) throws {
        guard let keyring = try keys.keyring(creating: true) else { return }
        var blocked: [ItemKey: (item: StoredItem, by: UnreadableItem)] = [:]
        try withoutActuallyEscaping(isChosen) { isChosen in
            let edits = items.map { item in
                ItemEdit(record: reader.itemRecord(of: item.key, keyring)) { record, keyring in
                    let place = try look(at: record, keyring, for: item)
                    blocked[item.key] = nil
                    if try !isChosen(place.content) { return Decision(keeping: place) }
                    if case .blocked(let unreadable) = place.content.occupant {
                        blocked[item.key] = (place.content.item, unreadable)
                        return Decision(keeping: place)
                    }
                    return Decision(storing: place.content.item, inPlaceOf: place)
                }
            }
            try writer.commit(edits, with: keyring)
        }
        for (item, unreadable) in blocked.values {
            try store(item, inPlaceOf: unreadable, with: keyring, where: isChosen)
        }
    }

    private func store(
        _ item: StoredItem,
        inPlaceOf blocked: UnreadableItem,
        with keyring: Keyring,
        where isChosen: (Place) throws -> Bool
    ) throws {
        let record = reader.itemRecord(of: item.key, keyring)
        do {
            let lock = try storage.lockIfSupported([record.name.namespace])
            defer { lock?.release() }
            // Another writer may have replaced it.
            if case .blocked = try look(at: record, keyring, for: item).content.occupant {
                _ = try lock.quarantine(record.name)
            }
        } catch let error as LockboxError
            where ![.lockTimeout, .readOnly, .notReachable, .accessDenied, .interactionNotAllowed].contains(
                error.code
            )
        {
            _ = try isChosen(Place(occupant: .unreadable(blocked), item: item))
            return
        }
        try writer.change([record], with: keyring) { record, keyring in
            var place = try look(at: record, keyring, for: item)
            switch place.content.occupant {
            case .absent: place = place.map { Place(occupant: .blocked(blocked), item: $0.item) }
            case .blocked(let another):
                place = place.map { Place(occupant: .unreadable(another), item: $0.item) }
            default: break
            }
            let isStored = try isChosen(place.content)
            return isStored
                ? Decision(storing: place.content.item, inPlaceOf: place) : Decision(keeping: place)
        }
    }

    // MARK: A look at a place

    private func look(at record: ItemRecord, _ keyring: Keyring, for new: StoredItem) throws -> Looked<Place>
    {
        do { return try readablePlace(record, keyring, for: new) } catch let error as LockboxError
            where error.isOfOneRecord
        {
            let unreadable = try reader.unreadableItem(record, key: new.key, error: error)
            // Another error may be one of the moment.
            let isBlocked = error.code == .unsafePermissions
            let item = try new.raised(to: isBlocked ? classInHeader(of: record) : nil)
            let occupant: Occupant = isBlocked ? .blocked(unreadable) : .unreadable(unreadable)
            return Looked(record, .absent, Place(occupant: occupant, item: item))
        }
    }

    private func readablePlace(_ record: ItemRecord, _ keyring: Keyring, for new: StoredItem) throws
        -> Looked<Place>
    {
        let old = try reader.existingItem(record, keyring, at: nil)
        if old.content.damage != nil {
            let item = try new.raised(to: classInHeader(of: record))
            return old.map { _ in Place(occupant: .damaged, item: item) }
        }
        guard let attributes = old.content.attributes else {
            return old.map { _ in Place(occupant: .absent, item: new) }
        }
        if !keyring.isOpen(attributes.accessibility) {
            throw LockboxError.interactionNotAllowed(attributes.accessibility)
        }
        var item = try new.raised(to: attributes.accessibility)
        let occupant = try occupant(of: record, keyring, comparedWith: &item)
        let isAbsent = attributes.isExpired(at: today) && !occupant.isSame
        // The class is that of the first look, so its revision counts: what was written since must not lose its class.
        return old.map { _ in Place(occupant: isAbsent ? .absent : occupant, item: item) }
    }

    /// Opens the value too: it can be damaged where the attributes are not.
    private func occupant(of record: ItemRecord, _ keyring: Keyring, comparedWith item: inout StoredItem)
        throws -> Occupant
    {
        do {
            guard let found = try reader.openItem(record, keyring, at: nil).content else { return .absent }
            item = try item.keepingClaim(of: found)
            return found == item ? .same : .other
        } catch let error as LockboxError where error.code == .corrupt || error.code == .authenticationFailed
        {
            return .damaged
        }
    }

    /// The class that the record names of an item that cannot be opened. It is not authentic, and only raises another.
    private func classInHeader(of record: ItemRecord) -> Accessibility? {
        guard let files = storage.asFiles else {
            return (try? reader.header(of: record))?.content.accessibility
        }
        // Also of a file that is refused.
        var bytes = files.unsafeBeginning(of: record.name, count: ItemHeader.length) ?? []
        return bytes.withUnsafeMutableBytes { ItemHeader.beginning(of: $0)?.accessibility }
    }
}

extension ItemReceiver.Occupant {
    var isSame: Bool {
        if case .same = self { true } else { false }
    }
}

extension StoredItem {
    /// Returns the item in a class that is as well protected as another one, too.
    fileprivate func raised(to other: Accessibility?) throws -> StoredItem {
        let accessibility = attributes.accessibility.raised(to: other)
        if accessibility == attributes.accessibility { return self }
        let changes = ItemChanges(
            options: WriteOptions(accessibility: accessibility),
            modified: attributes.modified
        )
        // The item's owner has not chosen this class.
        return try changes.item(after: self, for: key).with(ClassOrigin(.missing))
    }
}
