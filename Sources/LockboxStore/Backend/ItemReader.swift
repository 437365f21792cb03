import LockboxCore
import LockboxPlatform

/// Reads items: finds their records, opens them, and lists them. Changes nothing.
final class ItemReader: Sendable {
    let keys: KeyStore
    private let limits: StorageLimits
    private let namespaces = Protected<(key: SecretKey?, names: [String: String])>((nil, [:]))

    init(_ keys: KeyStore) { (self.keys, limits) = (keys, keys.storage.limits) }

    var storage: any RecordStorage { keys.storage }

    func attributes(for key: ItemKey, now: Date?) throws -> ItemAttributes? {
        guard var keyring = try keys.keyring(creating: false) else { return nil }
        var record = itemRecord(of: key, keyring)
        let didReadKeybag = try readBesideKeybag(&record, &keyring)
        let metadata = try metadata(record, keyring).content
        if metadata == nil, !didReadKeybag { try keys.checkIsThere() }
        return metadata.flatMap { $0.attributes.isExpired(at: now) ? nil : $0.attributes }
    }

    // MARK: One record

    /// Opens the record of an item. Returns nil for a locked item that has expired, and so counts as absent.
    func openRecord<Result>(
        of key: ItemKey,
        now: Date?,
        _ open: (RecordContents, RecordID, Keyring) throws -> Result?
    ) throws -> Result? {
        do {
            guard var keyring = try keys.keyring(creating: false) else { return nil }
            var record = itemRecord(of: key, keyring)
            let didReadKeybag = try readBesideKeybag(&record, &keyring)
            let found = try withRecord(record, keyring, atLeast: .max) { contents, id, keyring in
                let accessibility = { ItemHeader.beginning(of: contents.bytes)?.accessibility }
                try checkIsAllowed(accessibility(), for: key, in: record)
                return try open(contents, id, keyring)
            }
            // An absent record means an absent item, unless the whole store is gone.
            if found == nil, !didReadKeybag { try keys.checkIsThere() }
            return found ?? nil
        } catch let error as LockboxError where error.code == .interactionNotAllowed {
            if now != nil, try attributes(for: key, now: now) == nil { return nil }
            throw error
        }
    }

    /// Opens a record with `open`. Returns nil if there is no such record.
    ///
    /// The keys may be outdated. So it tries again with the current keybag if the keyring lacks the record's key or holds it locked, and
    /// if the record is not authentic, or of a closed epoch and not listed.
    ///
    /// - Parameter unlisted: Whether it may be of a closed epoch and not listed.
    func withRecord<Result>(
        _ record: ItemRecord,
        _ keyring: Keyring,
        atLeast minimum: Int,
        unlisted: Bool = false,
        _ open: (RecordContents, RecordID, Keyring) throws -> Result
    ) throws -> Result? {
        do {
            var isCut = false
            let found = try withContents(of: record, atLeast: minimum) { contents -> Result? in
                let epoch = ItemHeader.beginning(of: contents.bytes)?.epoch
                if let epoch, epoch < keyring.epoch, !unlisted {
                    isCut = minimum < .max
                    if isCut { return nil }
                    if !record.isDecided { try keys.checkIsCurrent(keyring) }
                    try keys.manifests.checkIsListed(contents, record.id, epoch, keyring)
                }
                return try open(contents, record.id, keyring)
            }
            return isCut ? try withRecord(record, keyring, atLeast: .max, open) : found ?? nil
        } catch let error as RecordError where error.isOfKeyring || error == .notAuthentic {
            let current = try keys.currentKeyring()
            let isCurrent =
                error.isOfKeyring
                ? current === keyring && record.contents == nil : !current.succeeds(keyring)
            if isCurrent { throw error.lockboxError(storage.subject(of: record.name)) }
            // A record that was read earlier may be sealed with keys that are gone by now.
            return try withRecord(
                ItemRecord(name: record.name, id: record.id, isDecided: record.isDecided),
                current,
                atLeast: minimum,
                unlisted: unlisted,
                open
            )
        } catch let error as RecordError {
            throw error.lockboxError(storage.subject(of: record.name))
        }
    }

    /// Reads one record, unless its contents are known. Returns nil if it does not exist.
    func withContents<Result>(
        of record: ItemRecord,
        atLeast minimum: Int,
        _ body: (RecordContents) throws -> Result
    ) throws -> Result? {
        switch record.contents {
        case .absent: return nil
        case .present(let known):
            var bytes = known.bytes
            return try bytes.withUnsafeMutableBytes {
                try body(RecordContents(bytes: $0, revision: known.revision))
            }
        case nil:
            let maximum = ItemEnvelope.maximumLength
            return try storage.withContents(of: record.name, atLeast: minimum, maximum: maximum, body)
        }
    }

    /// Reads a record and the keybag as of one instant, if other machines may change both. So revoked keys, and a store that
    /// was put back, are noticed at the next read, which takes no more calls of the storage.
    ///
    /// - Parameters:
    ///   - record: Receives its contents.
    ///   - keyring: Receives the current keys.
    /// - Returns: Whether it has read both. If false, nothing was changed.
    func readBesideKeybag(_ record: inout ItemRecord, _ keyring: inout Keyring) throws -> Bool {
        guard !limits.isOnThisDevice, limits.isTransactional else { return false }
        let keybag = RecordName.keybag
        guard let found = try readIfWhole([keybag, record.name]) else { return false }
        record.contents = found[record.name].map(KnownContents.present) ?? .absent
        let isUnchanged = found[keybag]?.revision == keyring.revision
        if !isUnchanged { keyring = try keys.currentKeyring() }
        return true
    }

    /// Returns the whole item, or nil if it is absent or has expired.
    func openItem(_ record: ItemRecord, _ keyring: Keyring, at now: Date?) throws -> Looked<StoredItem?> {
        do {
            let found = try look(at: record, keyring) {
                try ItemEnvelope.openItem($0.bytes, id: $1, keyring: $2, now: now)
            }
            let item = found.content ?? nil
            if let item { try checkIsAllowed(item.attributes.accessibility, for: item.key, in: record) }
            return Looked(record, found.revision, item)
        } catch let error as LockboxError where error.code == .interactionNotAllowed {
            let old = try existingItem(record, keyring, at: now)
            if old.content.isExpired { return Looked(record, old.revision, nil) }
            throw error
        }
    }

    /// Looks at a record for a decision. The content is nil if there is no such record.
    ///
    /// - Parameter unlisted: See ``withRecord(_:_:atLeast:unlisted:_:)``.
    func look<Content>(
        at record: ItemRecord,
        _ keyring: Keyring,
        atLeast minimum: Int = .max,
        unlisted: Bool = false,
        _ open: (RecordContents, RecordID, Keyring) throws -> Content
    ) throws -> Looked<Content?> {
        let found = try withRecord(record, keyring, atLeast: minimum, unlisted: unlisted) {
            let revision = $0.revision  // of the bytes before they are opened in place
            return (content: try open($0, $1, $2), revision: revision)
        }
        return Looked(record, found?.revision ?? .absent, found?.content)
    }

    /// Returns what is there before a write, locked or not.
    func existingItem(_ record: ItemRecord, _ keyring: Keyring, at now: Date?) throws -> Looked<ExistingItem>
    {
        func look(at record: ItemRecord) throws -> Looked<ExistingItem> {
            let found = try metadata(record, keyring)
            return Looked(record, found.revision, ExistingItem(found.content?.attributes, at: now))
        }
        do { return try look(at: record) } catch let error as LockboxError where error.isDamage {
            // Its revision, and then a second look, as another writer may replace it meanwhile.
            let record = ItemRecord(name: record.name, id: record.id, isDecided: record.isDecided)
            let revision = try storage.revision(of: record.name, maximum: .max)
            do { return try look(at: record) } catch let error as LockboxError where error.isDamage {
                return Looked(record, revision, ExistingItem(damage: error))
            }
        }
    }

    /// The content is nil if there is no such item.
    ///
    /// - Parameter prefix: The one whose namespace the record is in, if it is known.
    func metadata(_ record: ItemRecord, _ keyring: Keyring, in prefix: String? = nil) throws
        -> Looked<ItemMetadata?>
    {
        func open(atLeast minimum: Int) throws -> (metadata: ItemMetadata?, revision: RecordRevision)? {
            try withRecord(record, keyring, atLeast: minimum) {
                let revision = $0.revision  // of the bytes before they are opened in place
                if minimum == 0, !ItemHeader.containsMetadata($0.bytes) { return (nil, revision) }
                return (try ItemEnvelope.openMetadata($0.bytes, id: $1, keyring: $2), revision)
            }
        }
        // Most metadata is in the first bytes that are read in any case.
        var found = try open(atLeast: 0)
        if let first = found, first.metadata == nil {
            found = try open(atLeast: ItemEnvelope.maximumMetadataEnd)
        }
        guard let found, let metadata = found.metadata else { return Looked(record, .absent, nil) }
        // The record is bound to its name, but not to its folder.
        if metadata.key.prefix != prefix,
            namespace(of: metadata.key.prefix, keyring) != record.name.namespace
        {
            throw LockboxError.authenticationFailed(record: storage.subject(of: record.name))
        }
        try checkIsAllowed(metadata.attributes.accessibility, for: metadata.key, in: record)
        return Looked(record, found.revision, metadata)
    }

    /// Returns nil if there is no such item, or if it cannot be read, after it has named it.
    func readableMetadata(
        _ record: ItemRecord,
        _ keyring: Keyring,
        in prefix: String? = nil,
        unreadable: (UnreadableItem) throws -> Void
    ) throws -> ItemMetadata? {
        do { return try metadata(record, keyring, in: prefix).content } catch let error as LockboxError {
            try unreadable(unreadableItem(record, error: error))
            return nil
        }
    }

    /// - Throws: `error` itself if it is not about this record, but about the whole store.
    func unreadableItem(_ record: ItemRecord, key: ItemKey? = nil, error: LockboxError) throws
        -> UnreadableItem
    {
        guard error.isOfOneRecord else { throw error }
        let location = storage.location(of: record.name)
        return UnreadableItem(key: key, record: record.name.path, location: location, error: error)
    }

    /// Returns an item's header, or nil if it is malformed or the item absent.
    func header(of record: ItemRecord) throws -> Looked<ItemHeader>? {
        try withContents(of: record, atLeast: ItemHeader.length) { contents in
            ItemHeader.beginning(of: contents.bytes).map { Looked(record, contents.revision, $0) }
        } ?? nil
    }

    /// - Parameter record: If nil, the error names the key.
    /// - Throws: ``LockboxError/requirementNotMet(record:reason:)`` if this program requires a better protected class.
    func checkIsAllowed(
        _ accessibility: @autoclosure () -> Accessibility?,
        for key: ItemKey,
        in record: ItemRecord?
    ) throws {
        guard let minimum = keys.requirements.minimumAccessibility,
            !ItemKey.isReserved(prefix: key.prefix), let accessibility = accessibility(),
            accessibility.protection < minimum.protection
        else { return }
        throw LockboxError.requirementNotMet(
            record: record.map { storage.subject(of: $0.name) } ?? .other(key.location),
            reason: "its class is \(accessibility); this program requires at least \(minimum)"
        )
    }

    // MARK: Many records

    /// Calls a closure with each item's record of a namespace, with its contents if the storage gives them in pages.
    func forEachRecord(
        in namespace: String,
        waitingForCommits: Bool = false,
        _ body: (ItemRecord) throws -> Void
    ) throws {
        // Otherwise the names alone, which need less memory, are followed by one read for each.
        guard let paging = storage as? any PagingStorage else {
            return try items(in: namespace, waitingForCommits: waitingForCommits).forEach(body)
        }
        try paging.forEachPage(
            of: namespace,
            maximum: ItemEnvelope.maximumLength,
            waitingForCommits: waitingForCommits
        ) { page in
            for (name, record) in page {
                // Files that are not items are left out.
                guard let id = RecordID(name: name) else { continue }
                let name = RecordName(namespace: namespace, name: name)
                try body(ItemRecord(name: name, id: id, contents: record.map(KnownContents.present)))
            }
        }
    }

    /// Calls a closure with each item's record, also with one that another writer moves between the list and the look at it. An
    /// item that is moved after the look is passed once more, under its new key.
    ///
    /// - Parameter isThere: Returns whether the record was still there.
    func forEachRecordBesideMoves(in namespace: String, _ isThere: (ItemRecord) throws -> Bool) throws {
        var (seen, gone): ([RecordID], Set<RecordID>) = ([], [])
        func look(_ item: ItemRecord) throws {
            seen.append(item.id)
            if try !isThere(item) { gone.insert(item.id) }
        }
        try forEachRecord(in: namespace) { try look($0) }
        var conflicts = ConflictLimit()
        while let id = gone.first {
            try conflicts.check(RecordName(namespace: namespace, name: id.name), storage)
            let found = Set(seen).subtracting(gone)
            (seen, gone) = (Array(found), [])
            for item in try items(in: namespace) where !found.contains(item.id) { try look(item) }
        }
    }

    /// Returns the namespace's items, damaged ones included. Files that are not items are passed to `others`.
    func items(
        in namespace: String,
        waitingForCommits: Bool = false,
        others: (String) -> Void = { _ in }
    ) throws -> ItemRecords {
        var items = ItemRecords(namespace: namespace)
        try storage.forEachName(in: namespace, waitingForCommits: waitingForCommits) { name in
            if let id = RecordID(name: name) { items.ids.append(id) } else { others(name) }
        }
        return items
    }

    /// Returns the first of these edits with what their records hold, if the storage reads several as of one instant;
    /// otherwise all without. If one cannot be read, none has contents: what is wrong shows when it is read by itself.
    ///
    /// - Parameter most: How many to read. Receives how many of this size 4 MiB of memory hold.
    func readTogether(_ edits: ArraySlice<ItemEdit>, most: inout Int) throws -> ArraySlice<ItemEdit> {
        guard storage.limits.isTransactional, edits.count > 1 || edits.first?.records.count ?? 0 > 1
        else { return edits }
        let edits = edits.prefix(most)
        guard let found = try readIfWhole(edits.flatMap(\.records).map(\.name)) else { return edits }
        let length = found.values.reduce(0) { $0 + $1.bytes.count } / max(1, found.count)
        most = max(1, (4 << 20) / max(1, length))
        return ArraySlice(
            edits.map { edit in
                var edit = edit
                for (index, record) in edit.records.enumerated() {
                    edit.records[index].contents = found[record.name].map(KnownContents.present) ?? .absent
                }
                return edit
            }
        )
    }

    /// Returns nil if one of the records is too long.
    private func readIfWhole(_ records: [RecordName]) throws -> [RecordName: Record]? {
        do { return try storage.read(records, maximum: ItemEnvelope.maximumLength) } catch let error
            as LockboxError where error.code == .corrupt
        { return nil }
    }

    func forEachItem(
        prefix: String,
        now: Date?,
        unreadable: (UnreadableItem) throws -> Void,
        _ body: (ItemKey, ItemAttributes) throws -> Void
    ) throws {
        guard let keyring = try keys.keyring(creating: false) else { return }
        var isEmpty = true
        try forEachRecordBesideMoves(in: namespace(of: prefix, keyring)) { item in
            isEmpty = false
            var isUnreadable = false
            let metadata = try readableMetadata(item, keyring, in: prefix) {
                isUnreadable = true
                try unreadable($0)
            }
            guard let metadata else { return isUnreadable }
            if !metadata.attributes.isExpired(at: now) { try body(metadata.key, metadata.attributes) }
            return true
        }
        if isEmpty { try keys.checkIsThere() }
    }

    func prefixes(unreadable: (UnreadableItem) throws -> Void) throws -> Set<String> {
        guard let keyring = try keys.keyring(creating: false) else { return [] }
        var prefixes: Set<String> = []
        for namespace in try storage.namespaces() where keyring.owns(namespace: namespace) {
            guard let prefix = try prefix(of: namespace, keyring, unreadable: unreadable) else { continue }
            if !ItemKey.isReserved(prefix: prefix) { prefixes.insert(prefix) }
        }
        if prefixes.isEmpty { try keys.checkIsThere() }
        return prefixes
    }

    /// Returns nil, after it has named them, if none of the namespace's items can be read.
    private func prefix(
        of namespace: String,
        _ keyring: Keyring,
        unreadable: (UnreadableItem) throws -> Void
    ) throws -> String? {
        var passed: [UnreadableItem] = []
        do {
            try skippingIfUnusable(namespace, unreadable: unreadable) {
                try forEachRecordBesideMoves(in: namespace) { item in
                    let count = passed.count
                    let metadata = try readableMetadata(item, keyring) { passed.append($0) }
                    if let metadata { throw FoundPrefix(prefix: metadata.key.prefix) }
                    return passed.count > count
                }
            }
        } catch let found as FoundPrefix { return found.prefix }
        try passed.forEach(unreadable)
        return nil
    }

    // MARK: Names

    private static var maximumNamespaces: Int { 1024 }

    func namespace(of prefix: String, _ keyring: Keyring) -> String {
        namespaces.withLock { known in
            // The key never changes, but an attacker with the device key can forge a keybag with another one.
            if known.key !== keyring.names || known.names.count >= Self.maximumNamespaces {
                known = (keyring.names, [:])
            }
            if let namespace = known.names[prefix] { return namespace }
            let namespace = keyring.namespace(ofPrefix: prefix)
            known.names[prefix] = namespace
            return namespace
        }
    }

    func itemRecord(of key: ItemKey, _ keyring: Keyring) -> ItemRecord {
        let id = keyring.itemID(key)
        return ItemRecord(
            name: RecordName(namespace: namespace(of: key.prefix, keyring), name: id.name),
            id: id
        )
    }

    // MARK: Folders that cannot be used

    /// Runs `body`, which lists a namespace. If it fails because of this namespace, for example because its folder is not
    /// safe to use, names the namespace and returns nil.
    ///
    /// - Throws: Other errors. A lock that is held for too long is no damage either.
    func skippingIfUnusable<Result>(
        _ namespace: String,
        unreadable: (UnreadableItem) throws -> Void,
        _ body: () throws -> Result
    ) throws -> Result? {
        do { return try body() } catch let error as LockboxError where error.code != .lockTimeout {
            guard let location = error.subject?.description, isIn(namespace, location) else { throw error }
            // No item has such a record, so a repair refuses it.
            try unreadable(UnreadableItem(key: nil, record: namespace, location: location, error: error))
            return nil
        }
    }

    /// Whether this is the namespace's folder, or something in it.
    private func isIn(_ namespace: String, _ location: String) -> Bool {
        "\(location)/".hasPrefix(storage.location(of: RecordName(namespace: namespace, name: "")))
    }
}

/// Ends a list at the first item that can be read.
private struct FoundPrefix: Error { let prefix: String }
