import Foundation

@testable import Lockbox
@testable import LockboxAge
import LockboxBackup
@testable import LockboxCore
import LockboxPlatform
@_spi(Extensions) @testable import LockboxStore
@_spi(Extensions) import LockboxTesting

/// A store for `history`: its items, and what is done to it as a whole. Another engine is another type of this, and a case in
/// ``historyEngine(_:defect:delays:failures:)``.
protocol HistoryEngine: Sendable {
    var items: any LockboxBackend { get }

    /// - Parameter pause: is called after each item.
    func rotate(pause: () -> Void) throws
    func setPasscode(_ passcode: String) throws
    func changePasscode(to passcode: String) throws
    func removePasscode() throws
    func unlock(_ passcode: String) throws
    func lock() throws

    /// The backup's items, read back, and the keys that it leaves out.
    func export(to path: String) throws -> (items: [StoredItem], leftOut: [ItemKey])
    /// The keys that were kept.
    func importBackup(from path: String, existing: ExistingItemPolicy) throws -> [ItemKey]

    /// The faults of the store; called when nobody else uses it.
    func findings() throws -> [String]

    func moveObject(_ key: String, to newKey: ItemKey, _ policy: WritePolicy, in lockbox: Lockbox) throws
}

extension HistoryEngine {
    func moveObject(_ key: String, to newKey: ItemKey, _ policy: WritePolicy, in lockbox: Lockbox) throws {
        try lockbox.moveObject(forKey: key, toKey: newKey.key, toPrefix: newKey.prefix, policy: policy)
    }
}

/// - Parameters:
///   - argument: `files:DIRECTORY`, `memory` for the threads of one process, or as in HistoryEtcd.swift.
///   - defect: The name of a ``HistoryDefect``, or nil.
///   - delays: How many of 10,000 system calls are delayed, so that others come in between.
///   - failures: How many of 10,000 system calls that change the disk fail.
func historyEngine(_ argument: String, defect: String?, delays: Int, failures: Int) throws
    -> any HistoryEngine
{
    let parts = argument.split(separator: ":", maxSplits: 1).map(String.init)
    let engine: any HistoryEngine
    switch (parts.first, parts.count) {
    case ("memory", 1):
        let key = DeviceKeySource.closure { [UInt8](repeating: 7, count: 32) }
        engine = SealedHistoryEngine(backend: SealedBackend(storage: sharedMemory, deviceKey: key))
    case ("files", 2): engine = filesHistoryEngine(directory: parts[1], .disturbed(delays, failures))
    #if Etcd
        case ("etcd", 2):
            if let defect = defect.flatMap(EtcdDefect.init) { return try etcdHistoryEngine(parts[1], defect) }
            engine = try etcdHistoryEngine(parts[1], nil)
    #endif
    default: throw Violation(description: "there is no engine \(argument)")
    }
    guard let defect else { return engine }
    guard let defect = HistoryDefect(rawValue: defect) else {
        throw Violation(description: "there is no defect \(defect)")
    }
    return DefectiveHistoryEngine(engine, defect)
}

/// One store, whoever of the process opens it.
private let sharedMemory = InMemoryStorage()

/// The default backend: encrypted files in a folder.
private func filesHistoryEngine(directory: String, _ calls: SystemCalls) -> any HistoryEngine {
    let storage = FileStorage(
        StoreLocation(directory),
        calls: calls,
        // Longer than the coordinator stops anybody, and waits for anybody.
        lockTimeout: .seconds(120),
        isForOneMachine: true
    )
    return SealedHistoryEngine(backend: SealedBackend(storage: storage))
}

/// Lockbox on any storage.
struct SealedHistoryEngine: HistoryEngine {
    let backend: SealedBackend
    private var passphrase: PasscodeSource { .value("passphrase") }

    init(backend: SealedBackend) { self.backend = backend }

    var items: any LockboxBackend { backend }

    func rotate(pause: () -> Void) throws {
        let unreadable = try ifMade([]) { try backend.rotateKeys { _ in pause() }.unreadableItems }
        if let item = unreadable.first(where: { !$0.error.isOfCluster }) {
            throw HistoryOutcome.unreadable("\(item.location): \(item.error)")
        }
        if let item = unreadable.first { throw item.error }
    }

    func setPasscode(_ passcode: String) throws {
        try backend.setPasscode(.value(passcode), strength: .interactive)
    }

    func changePasscode(to passcode: String) throws {
        try backend.changePasscode(to: .value(passcode), strength: .interactive)
    }

    func removePasscode() throws { try backend.removePasscode() }
    func unlock(_ passcode: String) throws { try backend.unlock(.value(passcode)) }
    func lock() throws { try backend.lock() }

    func export(to path: String) throws -> (items: [StoredItem], leftOut: [ItemKey]) {
        let report = try ifMade(nil) {
            try backend.exportBackup(
                to: path,
                for: .passphrase(passphrase, workFactor: 10),
                allowsEmpty: true
            )
        }
        guard let report else { return ([], []) }
        let identity = try passphrase.withBytes { AgeIdentity.passphrase(WipedBytes($0)) }
        var items: [StoredItem] = []
        var reader = try BackupReader(path, [identity], SystemCalls())
        try reader.read { items.append($0) }
        try require(items.count == report.exportedCount, "the backup has \(items.count) items")
        return (items, report.excludedKeys)
    }

    func importBackup(from path: String, existing: ExistingItemPolicy) throws -> [ItemKey] {
        let secret = BackupSecret.passphrase(passphrase)
        return try backend.importBackup(from: path, with: secret, existing: existing, isTrusted: true)
            .keptKeys
    }

    func findings() throws -> [String] {
        try ifMade([]) { try backend.verify().findings }.filter {
            ![.leftover, .interrupted].contains($0.kind)
        }.map { "\($0.location): \($0.reason)" }
    }

    /// Before anything is stored there is no store.
    private func ifMade<Result>(_ none: Result, _ body: () throws -> Result) throws -> Result {
        do { return try body() } catch LockboxError.storeNotFound { return none }
    }
}

extension LockboxError {
    /// Whether it says nothing about an item, as the storage could not be reached.
    fileprivate var isOfCluster: Bool { code == .notReachable || code == .outcomeUnknown }
}

extension SystemCalls {
    fileprivate static func disturbed(_ delays: Int, _ failures: Int) -> SystemCalls {
        if delays == 0, failures == 0 { return SystemCalls() }
        @Sendable func isHit(_ perTenThousand: Int) -> Bool { Int.random(in: 0..<10_000) < perTenThousand }
        return SystemCalls(fault: { call in
            switch call {
            case .write, .fsync, .rename, .unlink:
                if isHit(failures) { return .failure(HistoryLog.failure) }
                fallthrough
            case .flock, .readdir: if isHit(delays) { usleep(.random(in: 100...20_000)) }
            default: break
            }
            return nil
        })
    }
}
