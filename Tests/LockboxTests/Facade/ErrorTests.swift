import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

@Suite struct ErrorTests {
    private struct Quoting: Error, CustomStringConvertible { var description: String { "hunter2" } }

    private typealias Row = (error: LockboxError, code: LockboxError.Code, status: Int32)

    private static let all: [Row] = items + keys + records + storage

    private static let items: [Row] = [
        (.itemNotFound(key: "k\"\n"), .itemNotFound, -25300),
        (.duplicateItem(key: "k"), .duplicateItem, -25299),
        (.interactionNotAllowed(.whenUnlocked), .interactionNotAllowed, -25308),
        (.missingKeyPrefix, .missingKeyPrefix, -50),
        (.invalidKey(reason: "a store cannot be moved into itself"), .invalidKey, -50),
        (.invalidAttribute(name: "label", reason: "too long"), .invalidAttribute, -50),
        (.valueTooLarge(size: 17, limit: 16), .valueTooLarge, -25302),
        (.encodingFailed(key: "k", underlying: Quoting()), .encodingFailed, -67694),
        (.decodingFailed(key: "k", type: "Int", underlying: Quoting()), .decodingFailed, -26275),
        (.typeMismatch(key: "k", stored: .data, type: "Int"), .typeMismatch, -26275),
        (.typeMismatch(key: "k", stored: .lockbox2, type: "Int"), .typeMismatch, -26275),
    ]

    private static let keys: [Row] = [
        (.classNotProven(.afterFirstUnlock), .classNotProven, -25308),
        (.passcodeNotSet, .passcodeNotSet, -25293),
        (.passcodeAlreadySet, .passcodeAlreadySet, -25299),
        (.wrongPasscode, .wrongPasscode, -25293),
        (.slotNotFound(slot: "tpm"), .slotNotFound, -25300),
        (.storeNotFound(location: "/s"), .storeNotFound, -25294),
        (.emptyBackup(path: "/b"), .emptyBackup, -25300),
        (.slotRefused(reason: "a store has at most 32 slots"), .slotRefused, -50),
        (.invalidPasscode(reason: "it is empty"), .invalidPasscode, -50),
        (.notEnoughMemory(bytes: 7), .notEnoughMemory, -108),
        (.invalidDeviceKey(source: "/k", reason: "it has 5 bytes"), .invalidDeviceKey, -50),
        (.deviceKeyMismatch(source: "/s/device-key"), .deviceKeyMismatch, -25293),
    ]

    private static let records: [Row] = [
        (.missing(record: "/s/keybag"), .missing, -25294),
        (.corrupt(record: "/s/keybag", reason: "it is cut short"), .corrupt, -67701),
        (.corrupt(record: "the item for the key \"k\"", reason: "it is cut short"), .corrupt, -67701),
        (.authenticationFailed(record: "/s/x"), .authenticationFailed, -25293),
        (.unsupportedVersion(record: "/s/x", version: 2), .unsupportedVersion, -67704),
        (.rolledBack(record: "/s/keybag", reason: "generation 3 after 5"), .rolledBack, -67808),
        (.requirementNotMet(record: "/s/keybag", reason: "it has no passcode"), .requirementNotMet, -67808),
        (.notABackup(path: "/tmp/x"), .notABackup, -25257),
        (.sourceRefused(path: "/x/.env", reason: "it is not UTF-8"), .sourceRefused, -25257),
    ]

    private static let storage: [Row] = [
        (.unsafePermissions(path: "/s", reason: "it is a FIFO, not a regular file"), .unsafePermissions, -61),
        (.invalidLocation(location: "~you/store", reason: "it is not this user's"), .invalidLocation, -50),
        (.storageFailure(operation: "fsync", path: "/s/x", errno: EIO), .storageFailure, -36),
        (.unreadable(record: "/s/x", reason: "open failed"), .unreadable, -36),
        (.readOnly(location: "/s", reason: "it is on a FUSE file system"), .readOnly, -25292),
        (.readOnly(location: "/s/lock", reason: "open failed (errno 13)"), .readOnly, -25292),
        (.lockTimeout(location: "/s/lock"), .lockTimeout, -36),
        (.storeReplaced(location: "/s"), .storeReplaced, -36),
        (.storageFailure(operation: "write", path: "/s/x", errno: ENOSPC), .storageFailure, -34),
        (.storageFailure(operation: "rename", path: "/s/x", errno: EXDEV), .storageFailure, -36),
        (
            .storageFailure(operation: "fsync", path: "/s/x", errno: EIO, explanation: "It is full."),
            .storageFailure, -36
        ),
        (
            .notReachable(endpoint: .endpoint("https://etcd:2379"), reason: "connection refused"),
            .notReachable, -25291
        ),
        (
            .notReachable(endpoint: "device:/dev/tpmrm0", reason: "another program uses it"), .notReachable,
            -25291
        ),
        (
            .accessDenied(endpoint: .endpoint("https://etcd:2379"), reason: "the user may not write"),
            .accessDenied,
            -25293
        ),
        (.accessDenied(endpoint: "the Keychain", reason: "no passcode is set up"), .accessDenied, -25293),
        (.userCanceled, .userCanceled, -128),
        (
            .keychainFailure(operation: "SecItemAdd", status: -34018, reason: "the entitlement is missing"),
            .keychainFailure, -34018
        ),
        (.conflict(record: "keybag"), .conflict, -25304),
        (.outcomeUnknown(record: "keybag", reason: "the connection was lost"), .outcomeUnknown, -67846),
        (.outcomeUnknown(record: "keybag", reason: "fsync failed", wasMade: true), .outcomeUnknown, -67846),
        (.rolledBack(record: .keybag("/s/keybag"), reason: "generation 3 after 5"), .rolledBack, -67808),
        (.notSupported(operation: "a time limit"), .notSupported, -4),
    ]

    @Test func everyCaseHasACodeOfItsOwn() throws {
        let cases = try SourceText.file("Sources/LockboxCore/Errors/LockboxError.swift")
            .matches(of: /\n    case (\w+)/).map { String($0.1) }
        for row in Self.all { #expect(row.error.code == row.code) }
        #expect(Set(Self.all.map(\.code.rawValue)) == Set(cases), "a case is not pinned here")
        #expect(LockboxError.Code.allCases.map(\.rawValue).sorted() == cases.sorted())
        #expect("\(LockboxError.Code.itemNotFound)" == "itemNotFound")
    }

    @Test func everyFormOfTheDescriptionIsTheSame() {
        for row in Self.all {
            #expect(row.error.debugDescription == row.error.description)
            #expect((row.error as any Error).localizedDescription == row.error.description)
        }
    }

    @Test func statusesAreTheKeychains() {
        for (error, _, status) in Self.all {
            #expect((error as NSError).code == Int(status))
        }
    }

    @Test func equalErrorsHaveEqualCodesAndPayloads() {
        for (left, one) in Self.all.enumerated() {
            for (right, other) in Self.all.enumerated() {
                #expect((one.error == other.error) == (left == right))
            }
        }
        #expect(LockboxError.itemNotFound(key: "a") != .itemNotFound(key: "b"))
        #expect(LockboxError.itemNotFound(key: "a") != .duplicateItem(key: "a"))
        #expect(LockboxError.corrupt(record: "a", reason: "b") != .corrupt(record: "b", reason: "a"))
        #expect(
            LockboxError.encodingFailed(key: "k", underlying: Quoting())
                == .encodingFailed(key: "k", underlying: CancellationError()),
            "underlying errors are not compared"
        )
        #expect(
            LockboxError.decodingFailed(key: "k", type: "Int", underlying: Quoting())
                != .decodingFailed(key: "k", type: "String", underlying: Quoting())
        )
    }

    /// Permissions have nothing to do with either, and a backup is no item.
    @Test func theAdviceCanWork() {
        let locks = LockboxError.storageFailure(operation: "flock", path: "/s/lock", errno: ENOLCK)
        #expect("\(locks)".contains("The mount must have locks: NFS 4"))
        let backup = LockboxError.corrupt(record: "b.age", reason: "r")
        #expect("\(backup)" == "b.age is damaged: r. Restore it from a copy.")
        let item = LockboxError.corrupt(record: .record("a/b"), reason: "r")
        #expect("\(item)".contains("imported from a Lockbox backup, overwritten or removed"))
    }

    @Test func canBeMatchedInACatch() throws {
        let lockbox = try InMemoryBackend().lockbox("p")
        do {
            try lockbox.archiveObject(1, forKey: "k", options: WriteOptions(policy: .updateOnly))
            Issue.record("no error")
        } catch LockboxError.itemNotFound(let key) {
            #expect(key == "k")
        }
        do {
            try lockbox.archiveObject(1, forKey: "k", options: WriteOptions(policy: .updateOnly))
        } catch let error as LockboxError where error.code == .itemNotFound {}
    }

    @Test("Promise 7: secrets do not appear in error texts and descriptions")
    func noWayOfPrintingShowsAnUnderlyingError() throws {
        for (error, _, _) in Self.all {
            let ns = error as NSError
            var texts = textsOfPrinting(error) + textsOfPrinting(Result<Int, any Error>.failure(error))
            texts += [error.localizedDescription, ns.description, ns.debugDescription, "\(ns.userInfo)"]
            for text in texts { #expect(!text.contains("hunter2"), "\(error.code)") }
        }
    }

    /// A key, a path or a reason may come from another program, and hold C1's CSI or turn the direction of the text.
    @Test func noDescriptionControlsATerminal() throws {
        let hostile = "a\u{9B}31mb\u{202E}c\nd"
        let errors: [LockboxError] = [
            .itemNotFound(key: hostile), .duplicateItem(key: hostile),
            .corrupt(record: .record(hostile), reason: hostile),
            .unsafePermissions(path: .other(hostile), reason: "r"),
            .invalidAttribute(name: hostile, reason: hostile),
        ]
        let refused = MigrationReport(outcomes: [.init(key: hostile, outcome: .absent)])
        let texts = errors.map(\.description) + ["\(refused)", "\(Migration(hostile, .string(hostile)))"]
        for text in texts {
            #expect(text.contains("\\u{009B}") && text.contains("\\u{202E}"), "\(text)")
            #expect(!text.unicodeScalars.contains { ["\u{9B}", "\u{202E}", "\n"].contains($0) }, "\(text)")
        }
    }

    /// However a program prints an error or a value of ours.
    @Test("Promise 7: secrets do not appear in error texts and descriptions")
    func noWayOfPrintingShowsAValue() throws {
        enum Mode: String, Codable { case on }
        let lockbox = try InMemoryBackend().lockbox("p")
        try lockbox.archiveObject("hunter2", forKey: "k")
        let value = try ArchivedValue(data: Data("hunter2".utf8), format: .data)
        let item = try StoredItem(key: ItemKey(prefix: "p", key: "k"), value: value, modified: Date())
        let decoding = try #require(lockboxError { try lockbox.unarchiveObject(Mode.self, forKey: "k") })
        let encoding = try #require(lockboxError { try lockbox.archiveObject(Deep(), forKey: "k") })
        guard case .decodingFailed(_, _, let underlying) = decoding else {
            Issue.record("\(decoding)")
            return
        }
        #expect("\(underlying)".contains("hunter2"), "the control: the decoder's own error does quote it")

        let bytes = Array("hunter2".utf8).map(String.init).joined(separator: " ")
        for subject in [decoding, encoding, value, item] as [Any] {
            for text in textsOfPrinting(subject) {
                #expect(!text.contains("hunter2"))
                #expect(!text.split { !$0.isNumber }.joined(separator: " ").contains(bytes))
            }
        }
    }

    private struct Deep: Codable {
        var secret = "hunter2"
        init() {}
        init(from decoder: any Decoder) throws {}
        func encode(to encoder: any Encoder) throws {
            throw EncodingError.invalidValue(secret, .init(codingPath: [], debugDescription: secret))
        }
    }
}
