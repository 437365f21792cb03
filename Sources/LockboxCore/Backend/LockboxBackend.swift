public import LockboxPlatform

/// Where items are kept: the seam between ``Lockbox`` and what stores for it.
///
/// A backend must have five methods: ``item(for:now:)``, ``attributes(prefix:now:)``, ``prefixes()``, ``update(_:now:_:)``
/// and ``remove(_:)``. All others have a default that is made of these, and that a backend may replace by something quicker.
/// What a backend can do besides is a protocol of its own: ``LockableBackend``, ``VerifiableBackend``.
///
/// Keys, values and attributes arrive checked: see ``ItemKey``, ``ArchivedValue`` and ``ItemAttributes``. What a
/// backend must do with them:
///
/// 1. **Absent is `nil`, and `nil` is absent.** A backend that cannot read an item, for whatever reason, throws.
/// 2. **A write is all or nothing.** Once it has returned, every later read, also by another process if the
///    backend is shared by processes, sees the new item. If it throws, the old item is still
///    there; or the new one, if it was only the proof of its durability that failed.
/// 3. **A read changes nothing**, whether it succeeds or fails.
/// 4. **An item that is expired at `now` is absent.** If `now` is nil, expired items are found, too. The policy of a write goes
///    by the new item's ``ItemAttributes/modified``. An expired item's data goes when it is overwritten or removed, or with
///    ``removeExpired(prefix:now:)``, never by itself.
/// 5. **Keys are equal as ``ItemKey`` says**, and prefixes are independent of each other.
/// 6. **A replace keeps the item's ``ItemAttributes/created``** date, unless the item it replaces is absent or
///    cannot be read.
/// 7. **Removing what is not there succeeds.** What is damaged or locked can be removed.
/// 8. **Any thread may call** at any time, and each call is atomic with regard to the others on the same key.
/// 9. **Errors are ``LockboxError``s** where one fits.
///
/// `LockboxTesting` has a conformance suite that holds a backend to this, in a few lines of its author's tests.
public protocol LockboxBackend: Sendable {
    // MARK: Required

    /// Returns the whole item, value and attributes of one and the same write; or nil if it is absent at `now`.
    ///
    /// - Parameters:
    ///   - key: Which item.
    ///   - now: An item that is expired then is absent; nil, none is.
    /// - Throws: ``LockboxError/interactionNotAllowed(_:)`` if the item is locked; another ``LockboxError`` if it cannot be
    ///   read.
    func item(for key: ItemKey, now: Date?) throws -> StoredItem?

    /// Returns the attributes of every item of `prefix` that is there at `now`.
    ///
    /// - Parameters:
    ///   - prefix: Whose items.
    ///   - now: Items that are expired then are absent; nil, none is.
    /// - Throws: ``LockboxError`` if those of one item cannot be read.
    func attributes(prefix: String, now: Date?) throws -> [ItemKey: ItemAttributes]

    /// Returns every prefix that has items, expired ones included. Not those that begin with a NUL: they are Lockbox's own.
    ///
    /// - Throws: ``LockboxError`` if they cannot be read.
    func prefixes() throws -> Set<String>

    /// Replaces, removes or makes an item in one step that no other call on the key can come between.
    ///
    /// - Parameters:
    ///   - key: Which item.
    ///   - now: An item that is expired then is absent; nil, none is.
    ///   - change: Gets the item, or nil if it is absent, and returns what is to be there instead, nil for nothing, with
    ///     its dates as they are to be. **It may be called again**, if another writer has come between, with what is there
    ///     then; only what the last call returns is stored. It may use the backend for items of other prefixes, but not of
    ///     this one. What it throws is rethrown, and the item does not change.
    /// - Throws: ``LockboxError/interactionNotAllowed(_:)`` if the item is locked.
    func update(_ key: ItemKey, now: Date?, _ change: (StoredItem?) throws -> StoredItem?) throws

    /// Removes an item, if it is there.
    ///
    /// - Parameter key: Which item. It may be locked, expired or damaged.
    /// - Throws: ``LockboxError`` if it cannot be removed.
    func remove(_ key: ItemKey) throws

    // MARK: With a default

    /// Stores `item`. By default with ``update(_:now:_:)``, which cannot replace an item that cannot be read.
    ///
    /// - Parameters:
    ///   - item: Key, value and attributes. Its ``ItemAttributes/modified`` is the date of the write.
    ///   - policy: What to do if the key is taken, or is not.
    /// - Throws: ``LockboxError/duplicateItem(key:)`` or ``LockboxError/itemNotFound(key:)`` as `policy` says;
    ///   ``LockboxError/interactionNotAllowed(_:)`` if the item's class is locked.
    func write(_ item: StoredItem, policy: WritePolicy) throws

    /// Returns the value alone; or nil if the item is absent at `now`. By default ``item(for:now:)``'s.
    ///
    /// - Parameters:
    ///   - key: Which item.
    ///   - now: An item that is expired then is absent; nil, none is.
    /// - Throws: ``LockboxError/interactionNotAllowed(_:)`` if the item is locked; another ``LockboxError`` if it cannot be
    ///   read.
    func value(for key: ItemKey, now: Date?) throws -> ArchivedValue?

    /// Returns the attributes alone, also of an item that is locked; or nil if the item is absent at `now`. By default those
    /// of ``item(for:now:)``, which a locked item does not give.
    ///
    /// - Parameters:
    ///   - key: Which item.
    ///   - now: An item that is expired then is absent; nil, none is.
    /// - Throws: ``LockboxError`` if they cannot be read.
    func attributes(for key: ItemKey, now: Date?) throws -> ItemAttributes?

    /// Calls `body` with the attributes of every item of `prefix` that is there at `now`. By default with those of
    /// ``attributes(prefix:now:)``, which are all in memory meanwhile.
    ///
    /// - Parameters:
    ///   - prefix: Whose items.
    ///   - now: Items that are expired then are absent; nil, none is.
    ///   - body: Is called with one item after the other, in no order. It may use the backend. What it throws is rethrown.
    /// - Throws: ``LockboxError`` if those of one item cannot be read.
    func forEachItem(prefix: String, now: Date?, _ body: (ItemKey, ItemAttributes) throws -> Void) throws

    /// Removes every item of `prefix`, expired and damaged ones too. By default one after the other, as
    /// ``attributes(prefix:now:)`` names them.
    ///
    /// - Parameter prefix: Whose items.
    /// - Throws: ``LockboxError`` if not all could be removed.
    func removeAll(prefix: String) throws

    /// Removes the items of `prefix` that are expired at `now`, and returns how many those were. By default one after the
    /// other.
    ///
    /// - Parameters:
    ///   - prefix: Whose items.
    ///   - now: The date to go by.
    /// - Throws: ``LockboxError`` if not all could be removed.
    @discardableResult
    func removeExpired(prefix: String, now: Date) throws -> Int
}
