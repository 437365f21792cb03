import Lockbox
@_spi(Extensions) import LockboxCore
import LockboxPlatform
@_spi(Extensions) import LockboxStore

/// Calls a store as an app does.
struct SimulatedClient: Sendable {
    /// The client of all threads of a process.
    final class Shared: @unchecked Sendable {
        // Unchecked: one thread of a machine runs at a time.
        private var client: SimulatedClient?
        private let knowledge: SimulatedKnowledge

        init(_ knowledge: SimulatedKnowledge) { self.knowledge = knowledge }

        func get() -> SimulatedClient {
            let client = client ?? SimulatedClient(knowledge)
            self.client = client
            return client
        }
    }

    private let knowledge: SimulatedKnowledge
    private let backend: SealedBackend
    private let boxes: [Lockbox]
    private var keys: SimulatedKeys { SimulatedKeys(knowledge: knowledge, backend: backend) }

    init(_ knowledge: SimulatedKnowledge) {
        self.knowledge = knowledge
        backend =
            knowledge.database.map {
                // The operators of the database must not have it.
                let deviceKey = DeviceKeySource.closure { [UInt8](repeating: 7, count: 32) }
                return SealedBackend(storage: SimulatedStorage(target: $0), deviceKey: deviceKey)
            } ?? SealedBackend(storage: FileStorage(directory: Simulation.directory))
        boxes = Self.boxes(backend)
    }

    private static func boxes(_ backend: SealedBackend) -> [Lockbox] {
        Simulation.prefixes.compactMap { try? Lockbox(keyPrefix: $0, backend: backend, now: { world.date }) }
    }

    private func box(_ key: Int) -> Lockbox { boxes[Simulation.keys[key].0] }
    private func name(_ key: Int) -> String { Simulation.keys[key].1 }
    private func policy(_ replacing: Bool) -> WritePolicy { replacing ? .replace : .addOnly }
    private func prefix(_ key: Int) -> String { Simulation.prefixes[Simulation.keys[key].0] }

    // MARK: Calls

    /// - Parameter note: Called with what the call has read before it changes anything.
    func perform(_ operation: SimulatedHistory.Operation, note: (String?) -> Void) throws
        -> SimulatedHistory.Answer
    {
        var attempts = 0
        do {
            let answer = try keys.unlocking {
                attempts += 1
                return try performed(operation, note)
            }
            // The first passcode of another process may end a migration in its middle: the second answer is about what the first one did.
            switch operation {
            case .migrate, .convert: return attempts > 1 && answer != .done ? .none : answer
            default: return answer
            }
        } catch is SimulatedIssuer.Refused {
            return .refused
        } catch let error as LockboxError {
            switch error.code {
            case .itemNotFound: return .absent
            case .duplicateItem: return .duplicate
            // Imported items, and those from before the first passcode, need a class that is named.
            case .classNotProven, .invalidAttribute: return .refused
            // No call has made one yet.
            case .storeNotFound: return .refused
            // An item of Lockbox 2.
            case .typeMismatch: return .refused
            // There is no recovery code, or no other one, or there are too many.
            case .slotRefused: return .refused
            default: throw error
            }
        }
    }

    private func performed(_ operation: SimulatedHistory.Operation, _ note: (String?) -> Void) throws
        -> SimulatedHistory.Answer
    {
        switch operation {
        case .read(let key): return .value(try read(key, in: boxes))
        case .write(let key, let value, let `class`): try write(key, value, `class`)
        case .add(let key, let value):
            try box(key).archiveObject(value, forKey: name(key), options: WriteOptions(policy: .addOnly))
        case .remove(let key): try box(key).removeObject(forKey: name(key))
        case .expire(let key, let value):
            // An import in its place is not less protected than it was: so it is of the least protected class.
            let options = WriteOptions(accessibility: .always, expires: .at(Date(timeIntervalSince1970: 0)))
            try box(key).archiveObject(value, forKey: name(key), options: options)
        case .update(let key, let value): return .value(try update(key, value))
        case .move(let from, let to, let replacing):
            try box(from).moveObject(
                forKey: name(from),
                toKey: name(to),
                toPrefix: prefix(to),
                policy: policy(replacing)
            )
        case .copy(let from, let to, let replacing):
            try box(from).copyObject(
                forKey: name(from),
                toKey: name(to),
                toPrefix: prefix(to),
                policy: policy(replacing)
            )
        case .migrate(let from, let to, let isNamed, let isKept):
            return try migrate(from, to, isNamed, keeping: isKept)
        case .batch(let key, let value, let other): try batch(key, value, removing: other)
        case .readAll(let prefix): return try readAll(prefix)
        case .removeAll(let prefix): try boxes[prefix].removeAllObjects()
        case .verify: _ = try backend.verify()
        case .removeExpired(let prefix): _ = try boxes[prefix].removeExpired()
        case .writeOld(let key, let value, let `class`):
            return try writeOld(key, value, Accessibility(rawValue: `class`)) ? .done : .none
        case .readOld(let key): return .value(old(key).read())
        case .rewriteOld(let key):
            let value = old(key).read()
            note(value)
            return try writeOld(key, value, nil) ? .value(value) : .none
        case .convert(let key, let isNamed): return try convert(key, isNamed)
        case .reclass(let key, let `class`):
            try box(key).setAttributes(
                WriteOptions(accessibility: Accessibility(rawValue: `class`)),
                forKey: name(key)
            )
        case .refresh(let key, let value): return .value(try refresh(key, value, note))
        case .passcode(let new, let isFirstAllowed):
            return try keys.setPasscode(new, isFirstAllowed: isFirstAllowed)
        case .addSlot(let slot, let isFirstAllowed):
            return try keys.addSlot(slot, isFirstAllowed: isFirstAllowed)
        case .removeSlot(let slot, let isLastAllowed):
            return try keys.removeSlot(slot, isLastAllowed: isLastAllowed)
        case .unlock(let slot): return try keys.unlock(withSlot: slot)
        case .export(let number): return try export(number)
        case .load(let number): return try load(number)
        case .lock: try backend.lock()
        case .rotate: _ = try backend.rotateKeys()
        }
        return .done
    }

    func write(_ key: Int, _ value: String, _ class: String? = nil) throws {
        let options = WriteOptions(accessibility: `class`.flatMap(Accessibility.init))
        try box(key).archiveObject(value, forKey: name(key), options: options)
    }

    /// Returns `value@class`, or `value/2@class`.
    private func read(_ key: Int, in boxes: [Lockbox]) throws -> String? {
        let box = boxes[Simulation.keys[key].0]
        do {
            return try box.unarchiveItem(String.self, forKey: name(key)).map {
                "\($0.value)@\($0.attributes.accessibility.rawValue)"
            }
        } catch let error as LockboxError where error.code == .typeMismatch {
            let found = try box.backend.item(
                for: ItemKey(prefix: prefix(key), key: name(key)),
                now: world.date
            )
            guard let item = found else { return nil }
            // It may have been converted in between.
            guard item.value.format == .lockbox2 else { return try read(key, in: boxes) }
            let value = String(decoding: item.value.data, as: UTF8.self).inFormOfLockbox2
            return "\(value)@\(item.attributes.accessibility.rawValue)"
        }
    }

    private func old(_ key: Int) -> SimulatedLockbox2 { SimulatedLockbox2(box(key), name(key)) }

    private func writeOld(_ key: Int, _ value: String?, _ class: Accessibility?) throws -> Bool {
        if old(key).write(value, `class`) { return true }
        // It may be locked. A nil that was read while it was must not be written then either.
        try keys.unlock()
        return old(key).write(value, `class`)
    }

    private func update(_ key: Int, _ value: String) throws -> String? {
        var found: String?
        _ = try box(key).update(name(key), as: String.self) {
            found = $0
            $0 = value
        }
        return found
    }

    /// - Parameter note: Called with the token before it is used.
    private func refresh(_ key: Int, _ new: String, _ note: (String?) -> Void) throws -> String? {
        let (box, name, issuer) = (box(key), name(key), knowledge.issuer)
        let used = SimulatedBox<String?>(nil)
        defer { note(used.value) }
        do {
            return try SimulatedTask.run {
                try await box.refreshed(
                    name,
                    as: String.self,
                    limits: .init(takeover: .seconds(1), storing: .seconds(4)),
                    isFresh: issuer.isFresh
                ) { old in
                    used.value = old.value
                    return try issuer.exchange(old.value, for: new, of: key, wasTold: old.mayBeSpent)
                }
            }
        } catch let error as Lockbox.RefreshError<String> {
            if let used = used.value { issuer.excuse(used, of: key) }
            throw error.reason
        }
    }

    private func migrate(_ from: Int, _ to: Int, _ isNamed: Bool, keeping isKept: Bool) throws
        -> SimulatedHistory.Answer
    {
        let migration = Migration(
            isNamed ? "\(isKept ? "keep" : "from") \(from)" : nil,
            from: .backend(backend, keyPrefix: prefix(from)),
            .string(name(from), to: name(to)),
            keepsOldItems: isKept
        )
        switch try box(to).migrate(migration).outcomes[0].outcome {
        case .migrated: return .done
        case .absent: return .absent
        case .alreadyMigrated: return .already
        // In one prefix, what is under the old key later is another item.
        case .migratedBefore: return isKept || prefix(from) == prefix(to) ? .refused : .absent
        case .refused(.destinationExists): return .duplicate
        // The item has changed after it was stored, or it could not be read.
        case .refused: return .none
        }
    }

    private func convert(_ key: Int, _ isNamed: Bool) throws -> SimulatedHistory.Answer {
        let migration = Migration(isNamed ? "convert \(key)" : nil, .string(name(key)))
        switch try box(key).migrate(migration).outcomes[0].outcome {
        case .migrated: return .done
        case .absent: return .absent
        case .alreadyMigrated: return .already
        case .migratedBefore: return .refused
        // As above.
        case .refused: return .none
        }
    }

    private func batch(_ key: Int, _ value: String, removing other: Int) throws {
        try box(key).batch { batch in
            try batch.archiveObject(value, forKey: name(key))
            if other != key, prefix(other) == prefix(key) { try batch.removeObject(forKey: name(other)) }
        }
        if prefix(other) != prefix(key) { try box(other).removeObject(forKey: name(other)) }
    }

    /// Lists the names, and reads each item.
    private func readAll(_ prefix: Int) throws -> SimulatedHistory.Answer {
        let names = try boxes[prefix].allKeys()
        if names.isEmpty { return .absent }
        var values: [Int: String] = [:]
        for key in Simulation.keys.indices where Simulation.keys[key].0 == prefix && names.contains(name(key))
        {
            values[key] = try read(key, in: boxes)
        }
        return .values(values)
    }

    // MARK: Backups

    private static func path(ofBackup number: Int) -> String { "/home/backup-\(number)" }

    /// Makes a backup, and returns what is in it, if it is complete.
    private func export(_ number: Int) throws -> SimulatedHistory.Answer {
        let path = Self.path(ofBackup: number)
        let report = try backend.exportBackup(
            to: path,
            for: .publicKeys([knowledge.backupKey.publicKey]),
            allowsEmpty: true
        )
        // An item that a rotation could not read, because the disk failed, is damaged.
        if let finding = report.findings.first(where: { $0.kind != .changing }) {
            throw LockboxError.corrupt(record: .other(finding.location), reason: finding.reason)
        }
        guard report.isComplete else { return .refused }
        let other = SealedBackend.inMemory()
        try other.importBackup(from: path, with: .privateKeys(.value(knowledge.backupKey.privateKey)))
        var values: [Int: String] = [:]
        for key in Simulation.keys.indices { values[key] = try read(key, in: Self.boxes(other)) }
        knowledge.backups[number] = values
        knowledge.lastBackup = number
        return .values(values)
    }

    private func load(_ number: Int) throws -> SimulatedHistory.Answer {
        let secret = BackupSecret.privateKeys(.value(knowledge.backupKey.privateKey))
        let report = try backend.importBackup(from: Self.path(ofBackup: number), with: secret)
        return report.isComplete ? .done : .none
    }

    // MARK: A look at everything

    /// Reads everything, completes what was interrupted, and checks the store.
    ///
    /// - Parameter isDamaged: Whether reads have failed. What a rotation could not read then must be accepted by name, or removed if it
    ///   is one of Lockbox's own records.
    func look(isDamaged: Bool) throws -> SimulatedHistory.State {
        if try backend.status() == nil {
            return Array(repeating: nil, count: Simulation.keys.count + 1 + knowledge.slots.count)
        }
        let unlocking = try keys.found()
        if isDamaged {
            for item in try boxes.flatMap({ try $0.list().unreadable }) {
                try backend.acceptItem(record: item.record)
            }
        }
        var findings = try backend.verify().findings
        if findings.contains(where: { $0.kind == .interrupted }) {
            let report = try backend.rotateKeys()
            if !isDamaged, !report.findings.isEmpty {
                throw SimulatedKeys.Unexpected(description: "the rotation finds \(report.findings)")
            }
            findings = try backend.verify().findings
        }
        if isDamaged {
            for record in findings.compactMap(Self.damagedRecord) { try backend.remove(record: record) }
            findings = try backend.verify().findings
        }
        let faults = findings.filter { $0.kind != .leftover }
        if !faults.isEmpty { throw SimulatedKeys.Unexpected(description: "verify finds \(faults)") }
        return try Simulation.keys.indices.map { try read($0, in: boxes) } + unlocking
    }

    private static func damagedRecord(_ finding: StoreFinding) -> String? {
        let items = "\(Simulation.directory)/items/"
        guard finding.kind == .damaged, finding.location.hasPrefix(items) else { return nil }
        return String(finding.location.dropFirst(items.count))
    }
}
