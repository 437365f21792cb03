import Foundation

@testable import Lockbox
@testable import LockboxAge
import LockboxBackup
@testable import LockboxCore
import LockboxPlatform
@_spi(Extensions) @testable import LockboxStore
@_spi(Extensions) import LockboxTesting

/// A store for `history`: its items, and what is done to it as a whole.
struct HistoryEngine: Sendable {
    let backend: SealedBackend
    private var passphrase: PasscodeSource { .value("passphrase") }

    init(backend: SealedBackend) { self.backend = backend }

    /// - Parameters:
    ///   - argument: `files:DIRECTORY`, or as in HistoryEtcd.swift.
    ///   - defect: The name of an ``EtcdDefect``, or nil.
    init(_ argument: String, defect: String? = nil) throws {
        let parts = argument.split(separator: ":", maxSplits: 1).map(String.init)
        switch (parts.first, parts.count) {
        case ("files", 2):
            // Longer than the coordinator stops a process, and waits for one.
            let storage = FileStorage(
                StoreLocation(parts[1]),
                lockTimeout: .seconds(120),
                isForOneMachine: true
            )
            self.init(backend: SealedBackend(storage: storage))
        #if Etcd
            case ("etcd", 2): self = try etcdHistoryEngine(parts[1], defect.flatMap(EtcdDefect.init))
        #endif
        default: throw Violation(description: "there is no engine \(argument)")
        }
    }

    var items: any LockboxBackend { backend }

    /// - Parameter pause: Called after each item.
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

    /// The backup's items, read back, and the keys that it leaves out.
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

    /// The keys that were kept.
    func importBackup(from path: String, existing: ExistingItemPolicy) throws -> [ItemKey] {
        let secret = BackupSecret.passphrase(passphrase)
        return try backend.importBackup(from: path, with: secret, existing: existing, isTrusted: true)
            .keptKeys
    }

    /// The faults of the store; called when no other process uses it.
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
