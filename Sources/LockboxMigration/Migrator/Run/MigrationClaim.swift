import LockboxCore
import LockboxPlatform

/// The exclusive right to run a migration, held by one thread of one process at a time. The migration's record
/// names the holder.
///
/// While it works, the holder changes the record every second. If a record names a holder and does not change,
/// that process was killed or stopped, and another one takes over.
final class MigrationClaim {
    /// The time without a change after which the claim can be taken over.
    @TaskLocal package static var patience: Duration = .seconds(5)
    /// The time between two changes of the record by its holder.
    @TaskLocal package static var interval: Duration = .seconds(1)

    /// The record as it was when the claim was acquired.
    private(set) var record = MigrationRecord()

    private let marker: ItemKey
    private let backend: any LockboxBackend
    private let now: Date
    private var runner = MigrationRecord.Runner(id: .random(in: .min ... .max), heartbeat: 0)
    private var renewed = ContinuousClock.now

    /// Waits until no other process runs the migration.
    init(_ marker: ItemKey, _ backend: any LockboxBackend, now: Date) throws {
        self.marker = marker
        self.backend = backend
        self.now = now
        var seen: (runner: MigrationRecord.Runner, since: ContinuousClock.Instant)?
        while true {
            let other = try MigrationRecord(backend.value(for: marker, now: now), marker).runner
            if let other, seen?.runner != other { seen = (other, .now) }
            let isFree = other == nil || seen.map { .now - $0.since >= Self.patience } ?? false
            if isFree, try take(from: other) { return }
            usleep(20_000)
        }
    }

    /// Returns false if another process has acquired the claim first.
    private func take(from other: MigrationRecord.Runner?) throws -> Bool {
        var isTakenOver = false
        try backend.update(marker, now: now) { old in
            record = try MigrationRecord(old?.value, marker)
            isTakenOver = record.runner == other
            guard isTakenOver else { return old }
            var next = record
            next.runner = runner
            return try next.item(marker, now: now)
        }
        renewed = .now
        return isTakenOver
    }

    /// Shows that the holder is still working. Call it before each item is read and before each change.
    ///
    /// - Throws: ``LockboxError/conflict(record:)`` if another process has taken over.
    func renew() throws {
        guard .now - renewed >= Self.interval else { return }
        var next = runner
        next.heartbeat += 1
        try change { $0.runner = next }
        runner = next
        renewed = .now
    }

    /// Releases the claim.
    ///
    /// - Parameter done: The old keys of the items that are done.
    func release(done: some Sequence<String> = []) throws {
        try change { record in
            record.done.formUnion(done)
            record.runner = nil
        }
    }

    private func change(_ body: (inout MigrationRecord) -> Void) throws {
        try backend.update(marker, now: now) { old in
            var record = try MigrationRecord(old?.value, marker)
            guard record.runner == runner else {
                throw LockboxError.conflict(record: MigrationRecord.name(marker))
            }
            body(&record)
            return try record.item(marker, now: now)
        }
    }
}
