public import LockboxCore
import LockboxPlatform

/// A complete record and its revision.
public struct Record: Sendable, Hashable {
    /// The record's bytes.
    public let bytes: [UInt8]

    /// The record's revision.
    public let revision: RecordRevision

    /// Creates a record.
    ///
    /// - Parameters:
    ///   - bytes: The record's bytes.
    ///   - revision: The record's revision.
    public init(bytes: [UInt8], revision: RecordRevision) {
        self.bytes = bytes
        self.revision = revision
    }
}

/// The name of a record.
public struct RecordName: Sendable, Hashable {
    /// The record's namespace, or `nil` if it is outside any namespace.
    public let namespace: String?

    /// The record's name in its namespace.
    public let name: String

    /// Creates a name.
    ///
    /// - Parameters:
    ///   - namespace: The record's namespace, or `nil` for none.
    ///   - name: The record's name in its namespace: ASCII, at most 61 characters. Lockbox uses lowercase letters,
    ///     digits and hyphens. The conformance suite also uses spaces.
    public init(namespace: String? = nil, name: String) {
        self.namespace = namespace
        self.name = name
    }
}

extension RecordName {
    static let keybag = RecordName(name: "keybag")
    static let deviceKey = RecordName(name: "device-key")
    /// The namespace of the lists of items that still use former keys.
    static let namespaceOfManifests = "manifest"

    /// Returns what an error about the record is about. Only items are records of their own: without the others, none can be read.
    func subject(at location: String) -> LockboxError.Subject {
        switch self {
        case .keybag: .keybag(location)
        case .deviceKey: .deviceKey(location)
        default:
            namespace == nil || namespace == Self.namespaceOfManifests ? .other(location) : .record(location)
        }
    }
}

/// Identifies one version of a record.
public struct RecordRevision: Sendable, Hashable {
    /// The revision of a record that does not exist.
    public static let absent = RecordRevision(0, 0, 0, 0)

    /// The numbers that it was made from.
    @_spi(Extensions) public let numbers: SIMD4<UInt64>

    /// Creates a revision from numbers that are never used again. They must not all be zero, which is
    /// ``absent``.
    public init(_ first: UInt64, _ second: UInt64 = 0, _ third: UInt64 = 0, _ fourth: UInt64 = 0) {
        numbers = SIMD4(first, second, third, fourth)
    }

    /// The number of bytes that a revision is computed from.
    static let prefixLength = 4096

    /// Computes the BLAKE2b-256 hash of the first bytes, combined with the length. Keybags and items have a
    /// random nonce near the beginning, so no two have the same hash.
    @_spi(Extensions) public init(of record: UnsafeRawBufferPointer, length: Int) {
        var parts = SIMD4<UInt64>()
        let prefix = UnsafeRawBufferPointer(rebasing: record.prefix(Self.prefixLength))
        withUnsafeMutableBytes(of: &parts) { Sodium.hash(prefix, into: $0) }
        parts[3] ^= UInt64(length)
        numbers = parts
    }
}

/// The contents of a record while it is being read. Valid only inside the closure that receives them.
public struct RecordContents {
    /// A copy of the record's first bytes, which may be overwritten.
    public let bytes: UnsafeMutableRawBufferPointer

    private let length: Int
    private let stated: RecordRevision?

    /// Creates contents with a revision that the storage keeps.
    ///
    /// - Parameters:
    ///   - bytes: A copy of the record's first bytes.
    ///   - revision: The record's revision.
    public init(bytes: UnsafeMutableRawBufferPointer, revision: RecordRevision) {
        self.bytes = bytes
        length = bytes.count
        stated = revision
    }

    /// Creates contents whose revision is computed from the bytes: all of them, or at least
    /// ``RecordRevision/prefixLength``.
    init(bytes: UnsafeMutableRawBufferPointer, length: Int) {
        self.bytes = bytes
        self.length = length
        stated = nil
    }

    /// The record's revision. Read it before you overwrite the bytes.
    public var revision: RecordRevision {
        stated ?? RecordRevision(of: UnsafeRawBufferPointer(bytes), length: length)
    }
}

/// A change in a ``RecordStorage/commit(_:expecting:)``.
///
/// There will be no other cases before the next major version: a storage has to handle all of them.
public enum RecordChange: Sendable {
    /// Stores a record, replacing an existing one of that name.
    case put(RecordName, [UInt8])

    /// Removes a record. Does nothing if it does not exist.
    case remove(RecordName)

    /// The name of the changed record.
    public var record: RecordName {
        switch self {
        case .put(let record, _), .remove(let record): record
        }
    }
}

extension RecordChange {
    /// The number of bytes that it stores.
    var length: Int {
        if case .put(_, let bytes) = self { bytes.count } else { 0 }
    }
}

extension [RecordChange] {
    /// The namespaces that no other process may commit to meanwhile, or nil for the records outside any. An expected record outside any
    /// is the keybag, which writers do not wait for.
    func namespaces(expecting: [RecordName: RecordRevision]) -> Set<String?> {
        Set(map(\.record.namespace)).union(expecting.keys.map(\.namespace).filter { $0 != nil })
    }
}

/// The result of a ``RecordStorage/commit(_:expecting:)``.
///
/// There will be no other cases before the next major version: who commits has to handle all of them.
public enum CommitOutcome: Sendable {
    /// The changes were made and are durable.
    case committed

    /// A record has another revision than expected. Nothing was changed.
    case conflict

    /// It is not known whether the changes were made; the error says why. They may take effect later, may have
    /// been made already, or may be lost in a power cut. A read that still finds the old records proves
    /// nothing. Usually ``LockboxError/outcomeUnknown(record:reason:wasMade:)``.
    case unknown(LockboxError)
}

/// The limits and guarantees of a storage.
public struct StorageLimits: Sendable, Hashable {
    /// The maximum length of a record, in bytes: at least 1 MiB.
    public let maximumRecordLength: Int

    /// The maximum number of changes in a commit.
    public let maximumChanges: Int

    /// The maximum length of all records of a commit together, in bytes. At least ``maximumRecordLength``.
    public let maximumCommitLength: Int

    /// Whether all changes of a commit take effect at the same instant, and several records are read as of the
    /// same instant. If false, this holds only for each record separately.
    public let isTransactional: Bool

    /// Whether the records stay on this device: `false` for a storage that others operate, or that other machines share.
    ///
    /// If `false`, a store refuses to keep its device key there (``DeviceKeySource/stored``): beside the records, the key would
    /// let others read names and, without a passcode, values. It also refuses items of the `ThisDeviceOnly` classes with
    /// ``LockboxError/notSupported(operation:)``.
    public let isOnThisDevice: Bool

    /// After how long a call throws ``LockboxError/conflict(record:)`` while each of its attempts to change a record meets
    /// another writer's change.
    public let conflictTime: Duration

    /// Creates limits.
    ///
    /// - Parameters:
    ///   - maximumRecordLength: The maximum length of a record, in bytes: at least 1 MiB.
    ///   - maximumChanges: The maximum number of changes in a commit, at least two.
    ///   - maximumCommitLength: The maximum length of all records of a commit together, in bytes.
    ///   - isTransactional: Whether commits and reads of several records take effect at one instant.
    ///   - isOnThisDevice: Whether the records stay on this device.
    ///   - conflictTime: After how long a call that meets nothing but conflicts ends.
    public init(
        maximumRecordLength: Int,
        maximumChanges: Int,
        maximumCommitLength: Int = .max,
        isTransactional: Bool,
        isOnThisDevice: Bool,
        conflictTime: Duration = .seconds(30)
    ) {
        self.maximumRecordLength = maximumRecordLength
        self.maximumChanges = maximumChanges
        self.maximumCommitLength = maximumCommitLength
        self.isTransactional = isTransactional
        self.isOnThisDevice = isOnThisDevice
        self.conflictTime = conflictTime
    }
}

// A device key's record contains the key itself, so no bytes are shown.

extension Record: Undescribed {
    /// The size, not the bytes.
    package var summary: String { "Record(\(bytes.count) bytes)" }
}

extension RecordChange: Undescribed {
    /// The record and the size, not the bytes.
    package var summary: String {
        switch self {
        case .put(let record, let bytes): "put(\(record.name), \(bytes.count) bytes)"
        case .remove(let record): "remove(\(record.name))"
        }
    }
}
