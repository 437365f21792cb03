import LockboxCore
import LockboxPlatform

/// Finds out whether a source of a migration is in the same store as the new items. Two backends may be the same
/// store, opened separately: removing an old item from one would then remove the new one from the other.
///
/// Looks for a probe in the source. Asks only once.
final class StoreIdentity {
    private let backend: any LockboxBackend
    private let now: Date
    private var answer: Bool?

    init(_ backend: any LockboxBackend, _ now: Date) { (self.backend, self.now) = (backend, now) }

    func isStore(of source: any SourceItems) throws -> Bool {
        if let answer { return answer }
        let isSame = try backend.withProbe(.alwaysThisDeviceOnly, now: now) { try source.contains($0) }
        answer = isSame
        return isSame
    }
}
