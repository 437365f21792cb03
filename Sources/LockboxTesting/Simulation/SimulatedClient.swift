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

    struct Unexpected: Error, CustomStringConvertible {
        let description: String
    }

    private let knowledge: SimulatedKnowledge
    private let backend: SealedBackend
    private let boxes: [Lockbox]

    init(_ knowledge: SimulatedKnowledge) {
        self.knowledge = knowledge
        let storage: any RecordStorage =
            knowledge.database.map { SimulatedStorage(target: $0) }
            ?? FileStorage(directory: Simulation.directory)
        backend = SealedBackend(storage: storage)
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

    func perform(_ operation: SimulatedHistory.Operation) throws -> SimulatedHistory.Answer {
        do { return try unlocking { try performed(operation) } } catch let error as LockboxError {
            switch error.code {
            case .itemNotFound: return .absent
            case .duplicateItem: return .duplicate
            // Imported items, and those from before the first passcode, need a class that is named.
            case .classNotProven, .invalidAttribute: return .refused
            default: throw error
            }
        }
    }

    private func performed(_ operation: SimulatedHistory.Operation) throws -> SimulatedHistory.Answer {
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
        case .migrate(let from, let to, let isNamed): return try migrate(from, to, isNamed)
        case .batch(let key, let value, let other): try batch(key, value, removing: other)
        case .readAll(let prefix): return .values(try readAll(prefix))
        case .removeAll(let prefix): try boxes[prefix].removeAllObjects()
        case .verify: _ = try backend.verify()
        case .removeExpired(let prefix): _ = try boxes[prefix].removeExpired()
        case .passcode(let new, let isFirstAllowed):
            return try setPasscode(new, isFirstAllowed: isFirstAllowed)
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

    /// Returns `value@class`.
    private func read(_ key: Int, in boxes: [Lockbox]) throws -> String? {
        try boxes[Simulation.keys[key].0].unarchiveItem(String.self, forKey: name(key)).map {
            "\($0.value)@\($0.attributes.accessibility.rawValue)"
        }
    }

    private func update(_ key: Int, _ value: String) throws -> String? {
        var found: String?
        _ = try box(key).update(name(key), as: String.self) {
            found = $0
            $0 = value
        }
        return found
    }

    private func migrate(_ from: Int, _ to: Int, _ isNamed: Bool) throws -> SimulatedHistory.Answer {
        let migration = Migration(
            isNamed ? "from \(from)" : nil,
            from: .backend(backend, keyPrefix: prefix(from)),
            .data(name(from), to: name(to))
        )
        switch try box(to).migrate(migration).outcomes[0].outcome {
        case .migrated: return .done
        case .absent, .alreadyMigrated: return .absent
        // In one prefix, what is under the old key later is another item.
        case .migratedBefore: return prefix(from) == prefix(to) ? .refused : .absent
        case .refused(.destinationExists): return .duplicate
        // The item has changed after it was stored, or it could not be read.
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
    private func readAll(_ prefix: Int) throws -> [Int: String] {
        let names = try boxes[prefix].allKeys()
        var values: [Int: String] = [:]
        for key in Simulation.keys.indices where Simulation.keys[key].0 == prefix && names.contains(name(key))
        {
            values[key] = try read(key, in: boxes)
        }
        return values
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

    // MARK: The passcode

    /// Runs `body`, and again after an unlock if the store is locked.
    private func unlocking<Value>(_ body: () throws -> Value) throws -> Value {
        for _ in 0..<3 {
            do { return try body() } catch let error as LockboxError
                where error.code == .interactionNotAllowed
            {
                try unlock()
            }
        }
        return try body()
    }

    private func unlock() throws {
        for passcode in knowledge.passcodes.reversed() {
            do { return _ = try backend.unlock(.value(passcode)) } catch LockboxError.wrongPasscode {
                continue
            } catch LockboxError.passcodeNotSet {
                return
            }
        }
        // Another process may have changed it since the first of these was tried.
    }

    /// Returns the one before.
    private func setPasscode(_ new: String?, isFirstAllowed: Bool) throws -> SimulatedHistory.Answer {
        if let new { knowledge.passcodes.append(new) }
        // Others may change it between two attempts.
        for _ in 0..<8 {
            do {
                if try backend.status()?.slots.isEmpty ?? true {
                    guard let new else { return .value(nil) }
                    guard isFirstAllowed else { return .refused }
                    try backend.setPasscode(.value(new), strength: .interactive)
                    return .value(nil)
                }
                if let old = try changePasscode(to: new) { return .value(old) }
            } catch LockboxError.passcodeAlreadySet {
                continue
            } catch LockboxError.passcodeNotSet {
                continue
            }
        }
        throw Unexpected(description: "no passcode opens the store")
    }

    private func changePasscode(to new: String?) throws -> String? {
        for old in knowledge.passcodes.reversed() {
            do {
                try unlocking {
                    if let new {
                        _ = try backend.changePasscode(
                            from: .value(old),
                            to: .value(new),
                            strength: .interactive
                        )
                    } else {
                        _ = try backend.removePasscode(.value(old))
                    }
                }
                return old
            } catch LockboxError.wrongPasscode {
                continue
            }
        }
        return nil
    }

    // MARK: A look at everything

    /// Reads everything, completes what was interrupted, and checks the store.
    ///
    /// - Parameter isDamaged: Whether reads have failed. What a rotation could not read then must be accepted by name, or removed if it
    ///   is one of Lockbox's own records.
    func look(isDamaged: Bool) throws -> SimulatedHistory.State {
        let passcode = try findPasscode()
        if isDamaged {
            for item in try boxes.flatMap({ try $0.list().unreadable }) {
                try backend.acceptItem(record: item.record)
            }
        }
        var findings = try backend.verify().findings
        if findings.contains(where: { $0.kind == .interrupted }) {
            let report = try backend.rotateKeys()
            if !report.findings.isEmpty {
                throw Unexpected(description: "the rotation finds \(report.findings)")
            }
            findings = try backend.verify().findings
        }
        if isDamaged {
            for record in findings.compactMap(Self.damagedRecord) { try backend.remove(record: record) }
            findings = try backend.verify().findings
        }
        let faults = findings.filter { $0.kind != .leftover }
        if !faults.isEmpty { throw Unexpected(description: "verify finds \(faults)") }
        return try Simulation.keys.indices.map { try read($0, in: boxes) } + [passcode]
    }

    private static func damagedRecord(_ finding: StoreFinding) -> String? {
        let items = "\(Simulation.directory)/items/"
        guard finding.kind == .damaged, finding.location.hasPrefix(items) else { return nil }
        return String(finding.location.dropFirst(items.count))
    }

    private func findPasscode() throws -> String? {
        if try backend.status()?.slots.isEmpty ?? true { return nil }
        for passcode in knowledge.passcodes {
            do {
                _ = try backend.unlock(.value(passcode))
                return passcode
            } catch LockboxError.wrongPasscode {}
        }
        throw Unexpected(description: "no passcode opens the store")
    }
}
