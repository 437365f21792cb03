import LockboxCore
import LockboxPlatform

/// Finds out whether a source of a migration is in the same store as the new items. Two backends may be the same
/// store, opened separately: removing an old item from one would then remove the new one from the other.
///
/// Writes a record with a random name to the store, looks for it in the source, and removes it. Asks only once.
final class StoreIdentity {
    /// No app can use it.
    static let prefix = "\0migration probe"

    private let backend: any LockboxBackend
    private let now: Date
    private var answer: Bool?

    init(_ backend: any LockboxBackend, _ now: Date) { (self.backend, self.now) = (backend, now) }

    func isStore(of source: any SourceItems) throws -> Bool {
        if let answer { return answer }
        let name = String(UInt128.random(in: .min ... .max), radix: 16)
        let record = try StoredItem(
            key: ItemKey(storedPrefix: Self.prefix, key: name),
            value: ArchivedValue(data: Data(name.utf8), format: .data),
            accessibility: .alwaysThisDeviceOnly,
            modified: now
        )
        try backend.write(record, policy: .replace)
        let result = Result { try source.contains(record) }
        try backend.remove(record.key)
        let isSame = try result.get()
        answer = isSame
        return isSame
    }
}
