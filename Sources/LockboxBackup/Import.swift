import LockboxAge
public import LockboxCore
import LockboxPlatform
@_spi(Extensions) public import LockboxStore

extension SealedBackend {
    /// Imports a backup into this store.
    ///
    /// Before it writes anything, it authenticates the whole file and checks that every class in it is open. An
    /// interrupted import can be repeated with any policy: items that are identical in the store and the backup
    /// do not count as existing, and neither do expired ones.
    ///
    /// A damaged item of the store is replaced by the backup's. So is a file of unsafe permissions, a link or a folder in its place,
    /// after it has been set aside as by ``LockboxBackend/quarantine(record:)``. Items that cannot be read now, of a newer version,
    /// sealed with keys newer than the keybag's, or of a class that this program refuses stay, and the report names them.
    ///
    /// - Parameters:
    ///   - path: The backup file. `-` is standard input.
    ///   - secret: Decrypts it. An attacker who knows a public key can make a backup for it: know where the file comes from.
    ///   - keys: The items to import. If `nil`, all.
    ///   - existing: How to treat a different, unexpired item under the same key in the store. With
    ///     ``ExistingItemPolicy/fail``, a damaged item counts as existing, and so does one that cannot be read. No class is
    ///     lowered: an item that is replaced, also a damaged or expired one, keeps a class that is better protected than the
    ///     backup's, and stays on this device if it was to.
    ///   - isDryRun: Whether only to report what would be imported.
    ///   - isTrusted: Whether you vouch that the backup is yours: classes that were chosen in the store that it is of then count
    ///     as chosen in this one. Otherwise none does, and the next write of an item has to name its class, unless that is
    ///     ``Accessibility/whenUnlocked``.
    ///   - progress: Called after each batch of items.
    /// - Returns: The items that were written, those that were kept, and those that could not be replaced.
    /// - Throws: ``LockboxError/notABackup(path:)``, ``LockboxError/wrongPasscode``,
    ///   ``LockboxError/invalidPasscode(reason:)``, ``LockboxError/notEnoughMemory(bytes:)``,
    ///   ``LockboxError/corrupt(record:reason:)``, ``LockboxError/authenticationFailed(record:)``,
    ///   ``LockboxError/requirementNotMet(record:reason:)`` if this program requires a better protected class,
    ///   ``LockboxError/interactionNotAllowed(_:)``, also for an item of the store that is locked, or
    ///   ``LockboxError/duplicateItem(key:)``, or ``LockboxError/itemNotFound(key:)`` if one of `keys` is not in the backup. Nothing has then changed, unless the file was changed meanwhile.
    @discardableResult
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func importBackup(
        from path: String,
        with secret: BackupSecret,
        only keys: Set<ItemKey>? = nil,
        existing: ExistingItemPolicy = .keep,
        isDryRun: Bool = false,
        isTrusted: Bool = false,
        progress: (StoreProgress) -> Void = { _ in }
    ) throws -> ImportReport {
        var reader = try BackupReader(path, secret.identities(), SystemCalls())
        var run = try Import(to: self, policy: existing, isDryRun: isDryRun)
        var found: Set<ItemKey> = []
        try reader.read { item in
            // Which of two would win would depend on their places in the file.
            guard found.insert(item.key).inserted else {
                throw BackupError.damaged("\(ItemKey.location(ofKey: item.key.key)) is in it twice")
            }
            if keys?.contains(item.key) ?? true { try run.check(item) }
        }
        if let missing = keys?.subtracting(found).map(\.key).min() {
            throw LockboxError.itemNotFound(key: missing)
        }
        let total = keys?.count ?? found.count
        var completed = 0
        var batch: [StoredItem] = []
        func takeBatch() throws {
            try run.take(batch)
            completed += batch.count
            batch = []
            progress(StoreProgress(completed: completed, total: total))
        }
        try reader.read { item in
            guard keys?.contains(item.key) ?? true else { return }
            batch.append(isTrusted ? item : item.with(ClassOrigin(.missing)))
            if batch.count == ItemOperation.batch || item.value.data.count > largeValue { try takeBatch() }
        }
        if !batch.isEmpty { try takeBatch() }
        try run.finish()
        return run.report
    }

    /// Returns the keys of all items in a backup, in its order. Authenticates the whole file first, and uses no store.
    ///
    /// - Parameters:
    ///   - path: The backup file. `-` is standard input.
    ///   - secret: Decrypts it.
    /// - Throws: The errors of ``SealedBackend``'s `importBackup` that are about the file.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public static func keys(ofBackup path: String, with secret: BackupSecret) throws -> [ItemKey] {
        var reader = try BackupReader(path, secret.identities(), SystemCalls())
        var keys: [ItemKey] = []
        try reader.read { keys.append($0.key) }
        return keys
    }
}

/// A value of this length or more ends a batch, so that a batch needs little memory.
private let largeValue = 1 << 16

/// An import that has begun.
private struct Import {
    private(set) var report = ImportReport()
    private let backend: SealedBackend
    private let receiver: ItemReceiver
    private let policy: ExistingItemPolicy
    private let isDryRun: Bool
    /// The prefixes of the items that the store had already.
    private var unchanged: Set<String> = []

    init(to backend: SealedBackend, policy: ExistingItemPolicy, isDryRun: Bool) throws {
        (self.backend, receiver) = (backend, try ItemReceiver(for: backend))
        (self.policy, self.isDryRun) = (policy, isDryRun)
    }

    /// The outcome for an item of the backup.
    private enum Outcome {
        case added, replaced, unchanged, kept
        case failed(UnreadableItem)

        var isStored: Bool {
            switch self {
            case .added, .replaced: true
            case .unchanged, .kept, .failed: false
            }
        }
    }

    private func outcome(in place: ItemReceiver.Place) throws -> Outcome {
        switch (place.occupant, policy) {
        case (.absent, _): .added
        case (.same, _): .unchanged
        case (.other, .keep): .kept
        case (.other, .fail), (.damaged, .fail): throw LockboxError.duplicateItem(key: place.item.key.key)
        case (.blocked(let item), .fail), (.unreadable(let item), .fail): throw item.error
        case (.unreadable(let item), _): .failed(item)
        case (.other, .replace), (.damaged, _), (.blocked, _): .replaced
        }
    }

    /// Under every policy, so that what cannot be written is found before anything is.
    func check(_ item: StoredItem) throws {
        let place = try receiver.place(of: item)
        _ = try outcome(in: place)
        try receiver.checkIsStorable(place.item)
    }

    mutating func take(_ items: [StoredItem]) throws {
        var outcomes: [ItemKey: Outcome] = [:]
        func isStored(_ place: ItemReceiver.Place) throws -> Bool {
            let outcome = try outcome(in: place)
            outcomes[place.item.key] = outcome
            return outcome.isStored
        }
        if isDryRun {
            for item in items { _ = try isStored(receiver.place(of: item)) }
        } else {
            try receiver.store(items, where: isStored)
        }
        for item in items { note(outcomes[item.key], of: item.key) }
    }

    private mutating func note(_ outcome: Outcome?, of key: ItemKey) {
        switch outcome {
        case .added: report.addedKeys.append(key)
        case .replaced: report.replacedKeys.append(key)
        case .kept: report.keptKeys.append(key)
        case .failed(let item): report.findings.append(item.finding)
        case .unchanged:
            report.unchangedCount += 1
            unchanged.insert(key.prefix)
        case nil: break
        }
    }

    /// The writer of an item that was there may have been killed before the item was durable.
    func finish() throws {
        if !isDryRun { try unchanged.sorted().forEach(backend.synchronize) }
    }
}

/// The secret that decrypts a backup.
public enum BackupSecret: Sendable {
    /// The passphrase that it was written with, if a guess costs at most so much: the cost is read from the file, which cannot be
    /// authenticated before. See ``BackupRecipients/passphrase(_:workFactor:)``.
    case passphrase(PasscodeSource, maximumWorkFactor: Int = 22)

    /// Private keys of age, one in each line, as `age-keygen` writes them: empty lines and lines that begin with `#` do not count.
    /// At most 64 KiB.
    case privateKeys(PasscodeSource)

    func identities() throws -> [AgeIdentity] {
        switch self {
        case .passphrase(let passphrase, let maximum):
            return try passphrase.forms().map { .passphrase($0, maximumWorkFactor: maximum) }
        case .privateKeys(let keys):
            let found = try keys.withBytes(atMost: 64 << 10) { bytes in
                let lines = String(decoding: bytes, as: UTF8.self)
                    .split(omittingEmptySubsequences: false, whereSeparator: \.isNewline)
                return try lines.enumerated().filter { !$1.isEmpty && !$1.hasPrefix("#") }.map {
                    number,
                    line in
                    do { return AgeIdentity.x25519(try AgePrivateKey(line)) } catch {
                        throw LockboxError.invalidPasscode(
                            reason:
                                "line \(number + 1) is no private key of age, which begins with AGE-SECRET-KEY-1"
                        )
                    }
                }
            }
            if found.isEmpty {
                throw LockboxError.invalidPasscode(reason: "there is no private key of age in it")
            }
            return found
        }
    }
}

/// The result of ``SealedBackend``'s `importBackup`.
public struct ImportReport: StoreReport, Hashable, Codable {
    /// The items that the store did not have.
    public var addedKeys: [ItemKey] = []

    /// The items that have replaced others: different ones with ``ExistingItemPolicy/replace``, and damaged ones.
    public var replacedKeys: [ItemKey] = []

    /// The number of items written.
    public var importedCount: Int { addedKeys.count + replacedKeys.count }

    /// The number of items that were already identical in the store.
    public var unchangedCount = 0

    /// The items that were not imported, because the store keeps a different item under the same key
    /// (``ExistingItemPolicy/keep``).
    public var keptKeys: [ItemKey] = []

    /// The items that were not imported, because the existing item can be neither read nor replaced.
    public var findings: [StoreFinding] = []
}
