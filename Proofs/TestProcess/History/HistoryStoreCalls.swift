import Foundation

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// The calls on the store as a whole, and those between stores.
extension HistoryThread {
    func makeOnStore(_ call: HistoryCall) throws {
        switch call {
        case .rotate: rotate()
        case .setPasscode:
            record("setPasscode") {
                try engine.setPasscode(randomPasscode()); return "ok"
            }
        case .changePasscode:
            record("changePasscode") {
                try engine.changePasscode(to: randomPasscode()); return "ok"
            }
        case .removePasscode:
            record("removePasscode") {
                try engine.removePasscode(); return "ok"
            }
        case .unlock:
            record("unlock") {
                try engine.unlock(randomPasscode()); return "ok"
            }
        case .lock:
            record("lock") {
                try engine.lock(); return "ok"
            }
        case .export: export()
        case .importBackup: try importBackup()
        case .copy: try copy()
        case .move: try move()
        case .migrate: try migrate()
        case .copyObject, .moveObject: try copyObject(isMove: call == .moveObject)
        default: throw Violation(description: "\(call) is not a call on the store")
        }
    }

    private func randomPasscode() -> String { random.element(["one", "two"]) }

    private func rotate() {
        let isSlow = settings.mix == .rotations && random.isOne(in: 2)
        let pauses = (0..<8).map { _ in UInt32(random.number(4000)) }
        record("rotate") {
            var number = 0
            try engine.rotate {
                if isSlow { usleep(pauses[number % pauses.count]) }
                number += 1
            }
            return "ok"
        }
    }

    private func export() {
        let path = "\(settings.folder)/backup.\(next())"
        record("export") {
            let (items, leftOut) = try engine.export(to: path)
            if !items.isEmpty { backups.append((path, items)) }
            return try "ok\(text(items))" + leftOut.map { " -\(name($0))" }.joined()
        }
        while backups.count > 2 { unlink(backups.removeFirst().path) }
    }

    private func importBackup() throws {
        guard let backup = backups.last else { return }
        let policy = random.element(ExistingItemPolicy.allCases)
        record("import \(policy)\(try text(backup.items))") {
            let kept = try engine.importBackup(from: backup.path, existing: policy)
            return "ok" + kept.map { " -\(name($0))" }.joined()
        }
    }

    private func copy() throws {
        if carried.isEmpty { return }
        let policy = random.element([ExistingItemPolicy.keep, .replace])
        let source = InMemoryBackend()
        for item in carried { try source.update(item.key, now: Date()) { _ in item } }
        record("copy \(policy)\(try text(carried))") {
            let report = try source.copyItems(to: items, existing: policy)
            return "ok" + report.keptKeys.map { " -\(name($0))" }.joined()
                + failures(report)
        }
    }

    private func move() throws {
        let prefix = randomPrefix()
        let target = InMemoryBackend()
        record("move \(prefix)") {
            let report = try items.moveItems(to: target, prefix: prefix)
            let moved = report.transferredKeys.compactMap {
                target.item(for: $0, now: nil)
            }
            if !moved.isEmpty { carried = moved }
            return try "ok\(text(moved))" + failures(report)
        }
    }

    private func failures(_ report: TransferReport) -> String {
        report.failures.map { " !\(name($0.key))" }.joined()
    }

    private func migrate() throws {
        let (key, call) = (try randomKey(), next())
        let state = HistoryState(value: call, accessibility: randomClass(), expires: false)
        let date = HistoryTime.date(call, isLate: false)
        let source = InMemoryBackend()
        let old = try StoredItem(
            key: key,
            value: ArchivedValue(data: Data(HistoryValue.text(call).utf8), format: .lockbox2),
            modified: date,
            label: String(call)
        )
        try source.write(old, policy: .addOnly)
        let lockbox = try Lockbox(keyPrefix: key.prefix, backend: items, now: { date })
        let migration = Migration(
            nil,
            from: .backend(source),
            items: [.string(key.key, accessibility: state.accessibility)]
        )
        record("migrate \(name(key)) \(state)") {
            switch try lockbox.migrate(migration).outcomes[0].outcome {
            case .migrated: return "ok"
            case .refused(.destinationExists): return "taken"
            // Another call came between the write and the second look.
            case .refused(.changed): return "changed"
            default: return "refused"
            }
        }
    }
}
