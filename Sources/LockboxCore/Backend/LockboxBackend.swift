public import LockboxPlatform

/// Stores the items of a ``Lockbox``.
///
/// A backend implements five methods: ``item(for:now:)``, ``attributes(prefix:now:)``, ``prefixes()``,
/// ``update(_:now:_:)`` and ``remove(_:)``. The others have default implementations, which a backend can
/// replace with faster ones. By default, operations that not every store supports throw ``LockboxError/notSupported(operation:)``.
///
/// Keys, values and attributes are already validated when they reach a backend: see ``ItemKey``,
/// ``ArchivedValue`` and ``ItemAttributes``. A backend must meet these requirements:
///
/// 1. **`nil` means absent, and nothing else.** If an item cannot be read, for whatever reason, the backend
///    throws.
/// 2. **A write is all or nothing.** After it has returned, every later read sees the new item, also in another
///    process if processes share the backend. If it throws, the old item is unchanged. The exception is an
///    error that only concerns durability, after which the new item may be stored.
/// 3. **A read changes nothing**, whether it succeeds or fails.
/// 4. **An item that has expired at `now` is absent.** If `now` is `nil`, expired items are found too. For the
///    policy of a write, the current time is the new item's ``ItemAttributes/modified``. An expired item's data
///    stays until the item is overwritten, removed, or deleted by ``removeExpired(prefix:now:unreadable:)``.
/// 5. **Keys are compared as ``ItemKey`` values**, and prefixes are independent of each other. Some are reserved for
///    Lockbox's own records: see ``ItemKey/isReserved(prefix:)``. Items with them are stored like others.
/// 6. **A write changes only what it sets.** Everything else keeps its value, and so does the
///    ``ItemAttributes/created`` date: see ``ItemChanges``. An absent, expired or damaged item has no values to keep.
/// 7. **Removing an absent item succeeds.** Damaged and locked items can be removed, except with
///    ``ItemOperation/removeReadable(_:now:)``.
/// 8. **All methods are thread-safe**, and calls on the same key are atomic with respect to each other. A closure may use
///    the backend from any thread, for other prefixes than its own: **no lock that such a call needs is held while it runs**.
/// 9. **Errors are ``LockboxError`` values** where a case fits.
///
/// `LockboxTesting` contains a conformance suite that tests a backend against these requirements in a few
/// lines.
public protocol LockboxBackend: Sendable {
    /// The size in bytes up to which every value can be stored, with any attributes: at least 65,537, at most
    /// ``ArchivedValue/maximumSize``, which the default implementation returns.
    ///
    /// A larger value is stored only if its attributes are short enough. Otherwise a write throws
    /// ``LockboxError/valueTooLarge(size:limit:)``.
    var maximumValueSize: Int { get }

    /// Whether the items stay on this device. If false, other machines share them, and each of them migrates its own old
    /// items into this backend.
    ///
    /// The default implementation returns `true`.
    var isOnThisDevice: Bool { get }

    // MARK: Required

    /// Returns the value and the attributes of an item, both from the same write, or `nil` if the item is
    /// absent.
    ///
    /// - Parameters:
    ///   - key: The item's key.
    ///   - now: The current time. An item that has expired by then counts as absent. If `nil`, expired items
    ///     are found too.
    /// - Throws: ``LockboxError/interactionNotAllowed(_:)`` if the item is locked, or another ``LockboxError``
    ///   if it cannot be read.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    func item(for key: ItemKey, now: Date?) throws -> StoredItem?

    /// Returns the attributes of every item with a prefix.
    ///
    /// - Parameters:
    ///   - prefix: The key prefix.
    ///   - now: The current time. Items that have expired by then are left out. If `nil`, expired items are
    ///     included.
    /// - Throws: ``LockboxError`` if the attributes of any item cannot be read.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    func attributes(prefix: String, now: Date?) throws -> [ItemKey: ItemAttributes]

    /// Returns every prefix that has items, expired ones included.
    ///
    /// Reserved prefixes are left out: see ``ItemKey/isReserved(prefix:)``.
    ///
    /// - Throws: ``LockboxError`` if the prefixes cannot be read.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    func prefixes() throws -> Set<String>

    /// Atomically creates, replaces or removes an item.
    ///
    /// - Parameters:
    ///   - key: The item's key.
    ///   - now: The current time. An item that has expired by then counts as absent. If `nil`, expired items
    ///     are found too.
    ///   - change: Receives the current item, or `nil` if it is absent, and returns the item to store, or `nil`
    ///     to remove it. The dates of the returned item are stored as they are. **It may be called more than
    ///     once**: if another writer changes the item meanwhile, it is called again with the new state, and
    ///     only the last result is stored. The returned item has this key; `nil` also removes an expired item. It must
    ///     not use the backend for this prefix. The backend holds no lock while it runs that a call for another prefix
    ///     would wait for. Errors that it throws are rethrown, and the item does not change.
    /// - Throws: ``LockboxError/interactionNotAllowed(_:)`` if the item's old or new class is locked;
    ///   ``LockboxError/passcodeNotSet`` if the new class needs a passcode; another ``LockboxError`` if the
    ///   item cannot be read or stored.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    func update(_ key: ItemKey, now: Date?, _ change: (StoredItem?) throws -> StoredItem?) throws

    /// Removes an item. Does nothing if it is absent.
    ///
    /// - Parameter key: The item's key. The item may be locked, expired or damaged.
    /// - Throws: ``LockboxError`` if the item cannot be removed.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    func remove(_ key: ItemKey) throws

    // MARK: With a default implementation

    /// Atomically creates an item, or changes the parts of an existing one that the changes set.
    ///
    /// The default implementation calls ``update(_:now:_:)``, and so cannot replace an item that cannot be
    /// read. ``ItemChanges/item(after:for:)`` returns what to store.
    ///
    /// - Parameters:
    ///   - changes: The changes. ``ItemChanges/modified`` is the date of the write.
    ///   - key: The item's key.
    /// - Throws: ``LockboxError/duplicateItem(key:)`` or ``LockboxError/itemNotFound(key:)``, depending on
    ///   the policy; ``LockboxError/itemNotFound(key:)`` also if there is neither a new value nor an item;
    ///   ``LockboxError/interactionNotAllowed(_:)`` if the item's old or new class is locked;
    ///   ``LockboxError/invalidAttribute(name:reason:)``.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    func write(_ changes: ItemChanges, to key: ItemKey) throws

    /// Performs many operations. The changes are durable when it returns.
    ///
    /// A backend for which an `fsync` is expensive uses one for many operations. If a crash interrupts the call,
    /// each item is as before or as after, independently of the others, unless the storage is transactional.
    ///
    /// The default implementation performs one operation after the other.
    ///
    /// - Parameter operations: Each for a different key: see ``ItemOperation/checkKeysDiffer(_:)``.
    /// - Throws: ``LockboxError/invalidKey(reason:)`` if two operations have the same key; any error of
    ///   ``write(_:to:)``, ``remove(_:)`` or ``update(_:now:_:)``. Some of the operations may have been performed.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    func apply(_ operations: [ItemOperation]) throws

    /// Copies an item to another key, with its attributes and dates.
    ///
    /// When the call returns, the item was unchanged under the old key at the moment at which the copy was stored. A backend that
    /// can compare both records in one step does. The default implementation reads the item again after it has stored the copy.
    /// If another writer has changed or removed the item, it puts back what was there, and starts again. A crash in between leaves
    /// the copy there. If both keys are equal, an item that exists stays as it is, whatever the policy.
    ///
    /// - Parameters:
    ///   - key: The item's key.
    ///   - newKey: The key of the copy, with the same prefix or another.
    ///   - policy: Whether to overwrite an item under the new key.
    ///   - now: The current time. An item that has expired by then counts as absent.
    /// - Throws: ``LockboxError/itemNotFound(key:)`` if the item is absent;
    ///   ``LockboxError/duplicateItem(key:)`` or ``LockboxError/itemNotFound(key:)``, depending on `policy`;
    ///   ``LockboxError/interactionNotAllowed(_:)`` if the item, or one under the new key, is locked;
    ///   ``LockboxError/conflict(record:)`` if other writers change the item during each attempt.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    func copy(_ key: ItemKey, to newKey: ItemKey, policy: WritePolicy, now: Date) throws

    /// Moves an item to another key, with its attributes and dates.
    ///
    /// Nothing is ever lost, also if another writer moves the item the other way: the new item is durable before the old one goes. A
    /// backend that can do both in one step does. The default implementation takes two: after a crash in between, the item is under
    /// both keys. If both keys are equal, an item that exists stays as it is, whatever the policy. If the item under the new key
    /// cannot be read, its error is thrown.
    ///
    /// - Parameters:
    ///   - key: The item's key.
    ///   - newKey: The new key, with the same prefix or another.
    ///   - policy: Whether to overwrite an item under the new key.
    ///   - now: The current time. An item that has expired by then counts as absent.
    /// - Throws: ``LockboxError/itemNotFound(key:)`` if the item is absent; ``LockboxError/duplicateItem(key:)`` or
    ///   ``LockboxError/itemNotFound(key:)``, depending on `policy`; ``LockboxError/interactionNotAllowed(_:)`` if the item, or
    ///   one under the new key, is locked; ``LockboxError/conflict(record:)`` if other writers change the item during each attempt.
    ///   In two steps, ``LockboxError/duplicateItem(key:)`` also if an equal item is under the new key, whatever the policy: another
    ///   writer may be about to move that one, or a crash has left both. Remove one of the two then.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    func move(_ key: ItemKey, to newKey: ItemKey, policy: WritePolicy, now: Date) throws

    /// Returns the value of an item, or `nil` if the item is absent.
    ///
    /// The default implementation calls ``item(for:now:)``.
    ///
    /// - Parameters:
    ///   - key: The item's key.
    ///   - now: The current time. An item that has expired by then counts as absent. If `nil`, expired items
    ///     are found too.
    /// - Throws: ``LockboxError/interactionNotAllowed(_:)`` if the item is locked, or another ``LockboxError``
    ///   if it cannot be read.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    func value(for key: ItemKey, now: Date?) throws -> ArchivedValue?

    /// Returns the values of several items. Absent items are left out.
    ///
    /// The default implementation calls ``value(for:now:)`` for each key, so the values are not a snapshot.
    ///
    /// - Parameters:
    ///   - keys: The items' keys.
    ///   - now: The current time. Items that have expired by then are left out. If `nil`, expired items are
    ///     included.
    /// - Throws: ``LockboxError/interactionNotAllowed(_:)`` if an item is locked, or another ``LockboxError`` if
    ///   one cannot be read.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    func values(for keys: [ItemKey], now: Date?) throws -> [ItemKey: ArchivedValue]

    /// Returns the attributes of an item, even if it is locked, or `nil` if the item is absent.
    ///
    /// The default implementation calls ``item(for:now:)``, and so throws for a locked item.
    ///
    /// - Parameters:
    ///   - key: The item's key.
    ///   - now: The current time. An item that has expired by then counts as absent. If `nil`, expired items
    ///     are found too.
    /// - Throws: ``LockboxError`` if the attributes cannot be read.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    func attributes(for key: ItemKey, now: Date?) throws -> ItemAttributes?

    /// Calls a closure with the attributes of every item with a prefix, in no particular order. Items that
    /// cannot be read are passed to another closure.
    ///
    /// The default implementation calls ``attributes(prefix:now:)``, which loads all attributes into memory and
    /// throws if one cannot be read.
    ///
    /// - Parameters:
    ///   - prefix: The key prefix.
    ///   - now: The current time. Items that have expired by then are left out. If `nil`, expired items are
    ///     included.
    ///   - unreadable: Called with each item that cannot be read. Throw its error to end the iteration.
    ///   - body: Called with one item at a time. It may use the backend. Errors that it throws are rethrown.
    /// - Throws: ``LockboxError`` if the items cannot be listed at all.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    func forEachItem(
        prefix: String,
        now: Date?,
        unreadable: (UnreadableItem) throws -> Void,
        _ body: (ItemKey, ItemAttributes) throws -> Void
    ) throws

    /// Returns every prefix that is known to have items, expired ones included.
    ///
    /// The default implementation calls ``prefixes()``.
    ///
    /// - Parameter unreadable: Called with each item that cannot be read and whose prefix is not known
    ///   otherwise.
    /// - Throws: ``LockboxError`` if the prefixes cannot be read at all.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    func prefixes(unreadable: (UnreadableItem) throws -> Void) throws -> Set<String>

    /// Removes every item with a prefix, expired and damaged ones included.
    ///
    /// The default implementation removes the items that ``attributes(prefix:now:)`` returns, one at a time.
    ///
    /// - Parameter prefix: The key prefix.
    /// - Throws: ``LockboxError`` if some items could not be removed.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    func removeAll(prefix: String) throws

    /// Removes the expired items with a prefix, and returns their number. Items that cannot be read stay,
    /// because their expiry is not known.
    ///
    /// The default implementation removes one item at a time.
    ///
    /// - Parameters:
    ///   - prefix: The key prefix.
    ///   - now: The current time.
    ///   - unreadable: Called with each item that cannot be read. Throw its error to end the removal.
    /// - Throws: ``LockboxError`` if some items could not be removed.
    @discardableResult
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    func removeExpired(prefix: String, now: Date, unreadable: (UnreadableItem) throws -> Void) throws -> Int

    // MARK: With a default implementation that refuses

    /// The classes that are open now. A migration checks this before it writes anything. A backend without locks returns
    /// ``LockState/unlocked`` if it stores every class.
    ///
    /// - Throws: ``LockboxError/notSupported(operation:)`` if this backend cannot tell: then a locked class is noticed when an
    ///   item is written. Another ``LockboxError`` if the state cannot be read.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    var lockState: LockState { get throws }

    /// Returns how errors refer to the record of an item, or `nil` if there is no store, or no such text.
    ///
    /// A migration skips an unreadable item, but ends if the whole store is unreadable. ``LockboxError/Subject/record(_:)`` tells the
    /// two apart. It also skips ``LockboxError/corrupt(record:reason:)``, ``LockboxError/authenticationFailed(record:)`` and
    /// ``LockboxError/unsupportedVersion(record:version:)`` about anything else.
    ///
    /// The default implementation returns `nil`.
    ///
    /// - Parameter key: The item's key. The item need not exist.
    /// - Returns: The text of the ``LockboxError/Subject/record(_:)`` that errors about this item, and about no other, have.
    /// - Throws: ``LockboxError`` if the store cannot be read.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    func location(of key: ItemKey) throws -> String?

    /// Begins to report changes of the items with a prefix, by any writer.
    ///
    /// Every write or removal of an item after this call has returned is reported at least once, as soon as it can be read, even
    /// if it stores an equal item. Changes of one item may be merged. Expiry is no change. A report that has begun may still
    /// arrive after the subscription has ended.
    ///
    /// - Parameters:
    ///   - prefix: The key prefix.
    ///   - report: Called with each change, on any thread, perhaps before this call returns. After a failure
    ///     nothing is reported any more.
    /// - Returns: A closure that ends the subscription. It may be called more than once, and from `report`.
    /// - Throws: ``LockboxError/notSupported(operation:)`` if this backend cannot report changes, or another
    ///   ``LockboxError``.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    func subscribe(
        prefix: String,
        _ report: @escaping @Sendable (Result<LockboxChange, any Error>) -> Void
    ) throws -> @Sendable () -> Void

    /// Removes an unreadable item, even if its key is not known. Does nothing if it is absent, or if it is readable by now:
    /// another writer may have replaced it since it was listed.
    ///
    /// - Parameter record: Identifies the item: see ``UnreadableItem/record``.
    /// - Returns: `false` if the item is readable, and stays.
    /// - Throws: ``LockboxError/invalidKey(reason:)`` if `record` is not the record of an item of this store, for
    ///   example if it is empty;
    ///   ``LockboxError/interactionNotAllowed(_:)`` if its value is locked, so that the store cannot check whether it is
    ///   readable; ``LockboxError/notSupported(operation:)``; any other ``LockboxError`` if it cannot be removed.
    @discardableResult
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    func remove(record: String) throws -> Bool

    /// Sets an unreadable item aside: it no longer counts as an item, and its bytes are kept.
    ///
    /// - Parameter record: Identifies the item: see ``UnreadableItem/record``.
    /// - Returns: Where its bytes are now, for example a path.
    /// - Throws: ``LockboxError/conflict(record:)`` if it is readable by now; ``LockboxError/interactionNotAllowed(_:)`` if
    ///   its value is locked; ``LockboxError/missing(record:)`` if it is absent; ``LockboxError/invalidKey(reason:)`` if
    ///   `record` is not the record of an item of this store; ``LockboxError/notSupported(operation:)``.
    @discardableResult
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    func quarantine(record: String) throws -> String

    /// Makes what was written under a prefix durable, in case a process was killed before it could do so.
    ///
    /// A copy to this backend synchronizes what it finds there. A backend whose writes are durable as soon as they can be seen
    /// needs no implementation: the copy takes ``LockboxError/notSupported(operation:)`` for success.
    ///
    /// - Parameter prefix: The key prefix. It need not have items.
    /// - Throws: ``LockboxError/notSupported(operation:)``, or another ``LockboxError`` if it fails.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    func synchronize(prefix: String) throws

    /// Checks everything that is stored. Changes nothing.
    ///
    /// - Parameter progress: Called after each record.
    /// - Returns: The number of intact items, and all problems found.
    /// - Throws: ``LockboxError/notSupported(operation:)`` if this backend cannot check itself;
    ///   ``LockboxError/storeNotFound(location:)``; another ``LockboxError`` if the store cannot be read at all. Problems with its
    ///   contents are in the report.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    func verify(progress: (StoreProgress) -> Void) throws -> VerifyReport

    /// Checks that nothing which the backend does not show, such as another program's item, has an item's place. A dry run of a
    /// migration calls it.
    ///
    /// The default implementation does nothing.
    ///
    /// - Throws: The error that creating the item would throw.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    func checkForForeignItem(_ key: ItemKey) throws
}

/// The accessibility classes of a store that can be read and written now.
public enum LockState: String, Sendable, Hashable, Codable, CaseIterable {
    /// The store has no passcode and no other slot. All classes are open except `whenPasscodeSetThisDeviceOnly`, which needs one.
    case unprotected
    /// The store has a passcode and has not been unlocked yet. Only the `always` classes are open.
    case beforeFirstUnlock
    /// All classes are open.
    case unlocked
    /// The store was locked again after an unlock. The `always` and `afterFirstUnlock` classes are open.
    case locked
}
