import LockboxCore
import LockboxFiles
import LockboxPlatform

/// A backup that another one is about to replace: what it has and the new one lacks so far.
struct EarlierBackup {
    private struct Dates {
        let created: Date
        let modified: Date
    }

    private let path: String
    private let calls: SystemCalls
    /// Nil if it cannot be read, so that nobody knows what would be lost.
    private var lacking: [ItemKey: Dates]?

    /// Reads it, if the new one's passphrase opens it.
    init(_ path: String, _ passphrase: UnsafeRawBufferPointer, _ calls: SystemCalls) throws {
        self.path = try Path.absolute(path)
        self.calls = calls
        lacking = try? Self.items(path, passphrase, calls)
    }

    private static func items(_ path: String, _ passphrase: UnsafeRawBufferPointer, _ calls: SystemCalls)
        throws
        -> [ItemKey: Dates]
    {
        let reader = try BackupReader(path, calls)
        let header = try reader.header()
        let key = try reader.passcode(header, maximum: PasscodeCost(.sensitive)).key(passphrase)
        let today = Date()
        var items: [ItemKey: Dates] = [:]
        try reader.read(key, header) { item in
            if item.attributes.isExpired(at: today) { return }
            items[item.key] = Dates(created: item.attributes.created, modified: item.attributes.modified)
        }
        return items
    }

    /// Another store's item may have the same key, but was created at another time.
    mutating func isFollowed(by new: StoredItem) {
        guard let old = lacking?[new.key], old.created == new.attributes.created,
            old.modified <= new.attributes.modified
        else { return }
        lacking?[new.key] = nil
    }

    /// Gives it a second name that no other file has, if anything would be lost, and returns that.
    func keepIfNeeded() throws -> String? {
        if lacking?.isEmpty == true { return nil }
        var number = 1
        while true {
            let kept = "\(path).earlier-\(number)"
            let result = calls.link(path, to: kept)
            if result >= 0 { return kept }
            switch CInt(-result) {
            case EEXIST: number += 1
            // A file system without hard links, such as FAT.
            case EPERM, EOPNOTSUPP, ENOSYS:
                let current = SystemCalls.currentDirectory
                if FileIdentity.kind(of: kept, at: current, calls) == nil {
                    try check(calls.rename(path, at: current, to: kept, at: current), "rename", kept)
                    return kept
                }
                number += 1
            default: try check(result, "link", kept)
            }
        }
    }
}
