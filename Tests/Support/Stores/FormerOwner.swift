import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// An attacker who has copied a store's device key and keybag, knows its passcode of that time, and can write files.
struct FormerOwner: Sendable {
    private let store: TestStore
    /// The keys that were copied, and what is sealed with them.
    private let copy: TestStore
    private let passcode: String?

    init(_ store: TestStore, passcode: String?) throws {
        self.store = store
        self.passcode = passcode
        copy = try TestStore(copying: store)
        try FileManager.default.removeItem(atPath: "\(copy.directory)/items")
    }

    /// Puts an item in the place of one of the store, which need not exist.
    func plant(
        _ value: String,
        at key: String,
        prefix: String = TestStore.prefix,
        _ accessibility: Accessibility = .whenUnlocked
    ) throws {
        let backend = copy.backend(remembers: false)
        if let passcode { try backend.unlock(.value(passcode)) }
        try backend.lockbox(prefix).archiveObject(value, forKey: key, accessibility: accessibility)
        let path = try store.path(key, prefix: prefix)
        if !FileManager.default.fileExists(atPath: Path.parent(of: path)) {
            mkdir(Path.parent(of: path), 0o700)
        }
        try overwrite(path, readBytes(copy.path(key, prefix: prefix)))
        chmod(path, 0o600)
    }
}

extension SealedBackend {
    /// How a list names the item.
    func record(of key: String, prefix: String = testPrefix) throws -> String {
        try recordName(of: ItemKey(prefix: prefix, key: key)).path
    }
}
