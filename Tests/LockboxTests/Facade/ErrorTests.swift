import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

@Suite struct ErrorTests {
    private struct Quoting: Error, CustomStringConvertible { var description: String { "hunter2" } }

    private typealias Row = (error: LockboxError, code: LockboxError.Code, status: Int32, description: String)

    private static let all: [Row] = items + keys + records + storage

    private static let items: [Row] = [
        (.itemNotFound(key: "k\"\n"), .itemNotFound, -25300, #"There is no item for the key "k\"\n"."#),
        (
            .duplicateItem(key: "k"), .duplicateItem, -25299,
            #"An item for the key "k" already exists. Use the policy .replace to overwrite it."#
        ),
        (
            .interactionNotAllowed(.whenUnlocked), .interactionNotAllowed, -25308,
            "Items of the class whenUnlocked are locked. Unlock the store and try again."
        ),
        (
            .missingKeyPrefix, .missingKeyPrefix, -50,
            "This program has no key prefix. Call Lockbox.configure(keyPrefix:) once at the start, or set LOCKBOX_KEY_PREFIX."
        ),
        (
            .invalidKey(reason: "a store cannot be moved into itself"), .invalidKey, -50,
            "A store cannot be moved into itself. Nothing was changed."
        ),
        (
            .invalidAttribute(name: "label", reason: "too long"), .invalidAttribute, -50,
            "Invalid label: too long. Nothing was changed."
        ),
        (
            .valueTooLarge(size: 17, limit: 16), .valueTooLarge, -25302,
            "The encoded value has 17 bytes; the limit is 16. Store it in a file, encrypted with a key that you archive here."
        ),
        (
            .encodingFailed(key: "k", underlying: Quoting()), .encodingFailed, -67694,
            #"The value for the key "k" could not be encoded: its type threw an error of the type Quoting. The old value, if any, is unchanged."#
        ),
        (
            .decodingFailed(key: "k", type: "Int", underlying: Quoting()), .decodingFailed, -26275,
            #"The value for the key "k" could not be decoded as Int: its type threw an error of the type Quoting. Ask for the type that was archived, or have Int read the older form too."#
        ),
        (
            .typeMismatch(key: "k", stored: .data, type: "Int"), .typeMismatch, -26275,
            #"The value for the key "k" is stored as data and cannot be read as Int. Ask for the type that was archived."#
        ),
        (
            .typeMismatch(key: "k", stored: .lockbox2, type: "Int"), .typeMismatch, -26275,
            #"The value for the key "k" was stored by Lockbox 2 and cannot be read as Int. Migrate it with migrate(_:), or read it with the methods of Lockbox 2."#
        ),
    ]

    private static let keys: [Row] = [
        (
            .passcodeNotSet, .passcodeNotSet, -25293,
            "The store has no passcode. Set one first. To store an item without a passcode, use a class other than whenPasscodeSetThisDeviceOnly."
        ),
        (
            .passcodeAlreadySet, .passcodeAlreadySet, -25299,
            "The store already has a passcode. Change or remove it instead."
        ),
        (
            .wrongPasscode, .wrongPasscode, -25293,
            "The passcode, recovery code, key or PIN is wrong. Check it and try again. Nothing was changed."
        ),
        (
            .slotNotFound(slot: "tpm"), .slotNotFound, -25300,
            "The store has no slot tpm. List its slots to see what unlocks it."
        ),
        (
            .slotRefused(reason: "a store has at most 32 slots"), .slotRefused, -50,
            "The slot cannot be changed: a store has at most 32 slots. Nothing was changed."
        ),
        (
            .invalidPasscode(reason: "it is empty"), .invalidPasscode, -50,
            "The passcode, recovery code or PIN cannot be used: it is empty. Nothing was changed."
        ),
        (
            .notEnoughMemory(bytes: 7), .notEnoughMemory, -108,
            "Argon2id needs 7 bytes of memory, which are not available. Raise the memory limit, or set the passcode again with a lower strength on a machine that has enough memory."
        ),
        (
            .invalidDeviceKey(source: "/k", reason: "it has 5 bytes"), .invalidDeviceKey, -50,
            "The key (/k) cannot be used: it has 5 bytes. Nothing was changed."
        ),
        (
            .deviceKeyMismatch(source: "/s/device-key"), .deviceKeyMismatch, -25293,
            "The device key (/s/device-key) does not belong to this store. Put the right one back. Nothing was changed."
        ),
    ]

    private static let records: [Row] = [
        (
            .missing(record: "/s/keybag"), .missing, -25294,
            "/s/keybag is missing. If it is the store's keybag or device key, restore it from a copy of the store. Nothing was changed."
        ),
        (
            .corrupt(record: "/s/keybag", reason: "it is cut short"), .corrupt, -67701,
            "/s/keybag is damaged: it is cut short. Restore it from a copy. A damaged item can also be imported from a Lockbox backup, overwritten or removed."
        ),
        (
            .corrupt(record: "the item for the key \"k\"", reason: "it is cut short"), .corrupt, -67701,
            #"The item for the key "k" is damaged: it is cut short. Restore it from a copy. A damaged item can also be imported from a Lockbox backup, overwritten or removed."#
        ),
        (
            .authenticationFailed(record: "/s/x"), .authenticationFailed, -25293,
            "/s/x was tampered with, or belongs to another key, prefix or store. Restore it from a copy. A damaged item can also be imported from a Lockbox backup, overwritten or removed."
        ),
        (
            .unsupportedVersion(record: "/s/x", version: 2), .unsupportedVersion, -67704,
            "/s/x has the format or cipher suite 2, which this version of Lockbox does not know. Update the program. Nothing was changed."
        ),
        (
            .rolledBack(record: "/s/keybag", reason: "generation 3 after 5"), .rolledBack, -67808,
            "/s/keybag does not match what was seen before: generation 3 after 5. Somebody may have put back an old copy. If you restored it yourself, call acceptRestored. Nothing was changed."
        ),
        (
            .requirementNotMet(record: "/s/keybag", reason: "it has no passcode"), .requirementNotMet, -67808,
            "/s/keybag is refused: it has no passcode. Somebody may have replaced it. Check the store, or change what the program requires. Nothing was changed."
        ),
        (
            .notABackup(path: "/tmp/x"), .notABackup, -25257,
            "/tmp/x is not a Lockbox backup. Choose another file. Nothing was changed."
        ),
        (
            .sourceRefused(path: "/x/.env", reason: "it is not UTF-8"), .sourceRefused, -25257,
            "/x/.env was refused and is unchanged: it is not UTF-8. Correct it, or name another file."
        ),
    ]

    private static let storage: [Row] = [
        (
            .unsafePermissions(path: "/s", reason: "it is a FIFO, not a regular file"), .unsafePermissions,
            -61,
            "/s is not safe to use: it is a FIFO, not a regular file."
        ),
        (
            .invalidLocation(location: "~you/store", reason: "it is not this user's"), .invalidLocation, -50,
            #""~you/store" cannot be used: it is not this user's. Nothing was changed."#
        ),
        (
            .storageFailure(operation: "fsync", path: "/s/x", errno: EIO), .storageFailure, -36,
            "fsync failed on /s/x: Input/output error (errno 5). Check the disk."
        ),
        (
            .unreadable(record: "/s/x", reason: "open failed"), .unreadable, -36,
            "/s/x cannot be read: open failed. Check its owner and permissions, and the disk. Nothing was changed."
        ),
        (
            .readOnly(location: "/s", reason: "it is on a FUSE file system"), .readOnly, -25292,
            "/s cannot be written: it is on a FUSE file system. Nothing was changed."
        ),
        (
            .readOnly(location: "/s/lock", reason: "open failed (errno 13)"), .readOnly, -25292,
            "/s/lock cannot be written: open failed (errno 13). Check its owner and permissions, and whether the file system is mounted read-only. Nothing was changed."
        ),
        (
            .lockTimeout(location: "/s/lock"), .lockTimeout, -36,
            "Another process held the lock /s/lock for too long. Check what it is doing, and try again."
        ),
        (
            .storeReplaced(location: "/s"), .storeReplaced, -36,
            "/s was moved or replaced while it was open. Restart the program to use the store that is there now."
        ),
        (
            .storageFailure(operation: "txn", path: "https://etcd:2379", errno: E2BIG), .storageFailure, -36,
            "The change is too large for https://etcd:2379. Store smaller values, or raise etcd's --max-request-bytes."
        ),
        (
            .storageFailure(operation: "write", path: "/s/x", errno: ENOSPC), .storageFailure, -34,
            "write failed on /s/x: No space left on device (errno 28). Free disk space and try again."
        ),
        (
            .storageFailure(operation: "rename", path: "/s/x", errno: EXDEV), .storageFailure, -36,
            "rename failed on /s/x: Invalid cross-device link (errno 18)."
        ),
        (
            .storageFailure(operation: "txn", path: "https://etcd:2379", errno: ENOSPC), .storageFailure, -34,
            "https://etcd:2379 has no space left. Compact and defragment etcd, then disarm its alarm with etcdctl alarm disarm."
        ),
        (
            .notReachable(endpoint: "https://etcd:2379", reason: "connection refused"), .notReachable, -25291,
            "https://etcd:2379 cannot be reached: connection refused. Check the address and the network, and try again. Nothing was changed."
        ),
        (
            .notReachable(endpoint: "device:/dev/tpmrm0", reason: "another program uses it"), .notReachable,
            -25291,
            "device:/dev/tpmrm0 cannot be reached: another program uses it. Nothing was changed."
        ),
        (
            .accessDenied(endpoint: "https://etcd:2379", reason: "the user may not write"), .accessDenied,
            -25293,
            "https://etcd:2379 denied access: the user may not write. Check the user's name, password and permissions. Nothing was changed."
        ),
        (
            .accessDenied(endpoint: "the Keychain", reason: "no passcode is set up"), .accessDenied, -25293,
            "The Keychain denied access: no passcode is set up. Nothing was changed."
        ),
        (
            .userCanceled, .userCanceled, -128,
            "The user canceled the request. Only earlier changes of the same batch, move or migration were made."
        ),
        (
            .keychainFailure(operation: "SecItemAdd", status: -34018, reason: "the entitlement is missing"),
            .keychainFailure, -34018,
            "SecItemAdd failed with the status -34018: the entitlement is missing. Only earlier changes of the same batch, move or migration were made."
        ),
        (
            .conflict(record: "keybag"), .conflict, -25304,
            "Another writer changed keybag at the same time, and that change is kept. Read it again, then retry."
        ),
        (
            .outcomeUnknown(record: "keybag", reason: "the connection was lost"), .outcomeUnknown, -67846,
            "It is not known whether keybag was changed: the connection was lost. Check what is stored before you repeat the call."
        ),
        (
            .notSupported(operation: "a time limit"), .notSupported, -4,
            "Not supported: a time limit. Use a backend, a device or a system that supports it. Nothing was changed."
        ),
    ]

    @Test func everyCaseHasACodeOfItsOwn() throws {
        let cases = try SourceText.file("Sources/LockboxCore/Errors/LockboxError.swift")
            .matches(of: /\n    case (\w+)/).map { String($0.1) }
        for row in Self.all { #expect(row.error.code == row.code) }
        #expect(Set(Self.all.map(\.code.rawValue)) == Set(cases), "a case is not pinned here")
        #expect(LockboxError.Code.allCases.map(\.rawValue).sorted() == cases.sorted())
        #expect("\(LockboxError.Code.itemNotFound)" == "itemNotFound")
    }

    @Test func descriptionsSayWhatToDo() {
        for (error, _, _, description) in Self.all {
            #expect(error.description == description)
            #expect(error.debugDescription == description)
            #expect((error as any Error).localizedDescription == description)
        }
    }

    @Test func statusesAreTheKeychains() {
        for (error, _, status, _) in Self.all {
            #expect(error.osStatus == status)
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
        for (error, _, _, _) in Self.all {
            let ns = error as NSError
            var texts = textsOfPrinting(error) + textsOfPrinting(Result<Int, any Error>.failure(error))
            texts += [error.localizedDescription, ns.description, ns.debugDescription, "\(ns.userInfo)"]
            for text in texts { #expect(!text.contains("hunter2"), "\(error.code)") }
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
