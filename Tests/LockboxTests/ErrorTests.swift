import Foundation
import Testing

import Lockbox
@testable import LockboxCore
@testable import LockboxFiles
@testable import LockboxMigration
@testable import LockboxSealed
@testable import LockboxSodium

@Suite struct ErrorTests {
    private struct Quoting: Error, CustomStringConvertible { var description: String { "hunter2" } }

    private static let all: [(error: LockboxError, status: Int32, description: String)] = [
        (.itemNotFound(key: "k\"\n"), -25300, #"There is no item for the key "k\"\n"."#),
        (
            .duplicateItem(key: "k"), -25299,
            #"There is an item for the key "k" already. Write with the policy .replace to overwrite it."#
        ),
        (
            .interactionNotAllowed(.whenUnlocked), -25308,
            "Items of the class whenUnlocked are locked now. Unlock the store and try again."
        ),
        (
            .passcodeNotSet, -25293,
            "The store has no passcode. Set one first, or use another class than whenPasscodeSetThisDeviceOnly."
        ),
        (
            .passcodeAlreadySet, -25299,
            "The store has a passcode already. Change or remove it instead."
        ),
        (.wrongPasscode, -25293, "The passcode is wrong. Nothing was changed."),
        (.invalidPasscode(reason: "it is empty"), -50, "There is no usable passcode: it is empty."),
        (
            .notEnoughMemory(bytes: 7), -108,
            "The passcode takes 7 bytes of memory to check, which could not be had. Raise the limit, or change the passcode to one of less strength on a larger machine."
        ),
        (
            .missingKeyPrefix, -50,
            "This program has no bundle identifier. Call Lockbox.configure(keyPrefix:) once at the start, or set LOCKBOX_KEY_PREFIX."
        ),
        (.invalidKey(reason: "the key is empty"), -50, "Invalid key: the key is empty."),
        (.invalidAttribute(name: "label", reason: "too long"), -50, "Invalid label: too long."),
        (
            .valueTooLarge(size: 17, limit: 16), -25302,
            "The encoded value has 17 bytes; the limit is 16. Keep it in a file of its own, encrypted with a key that you archive here."
        ),
        (
            .encodingFailed(key: "k", underlying: Quoting()), -67694,
            #"The value for the key "k" could not be encoded. The old value, if any, is unchanged."#
        ),
        (
            .decodingFailed(key: "k", type: "Int", underlying: Quoting()), -26275,
            #"The value for the key "k" could not be decoded as Int. Ask for the type that was archived."#
        ),
        (
            .typeMismatch(key: "k", stored: .data, type: "Int"), -26275,
            #"The value for the key "k" is stored as data and cannot be read as Int. Ask for the type that was archived."#
        ),
        (
            .corrupt(record: "/s/keybag", reason: "it is cut short"), -67701,
            "/s/keybag is damaged: it is cut short. Restore it from a backup; an item can also be removed or overwritten."
        ),
        (
            .authenticationFailed(record: "/s/x"), -25293,
            "/s/x was changed, or belongs to another key, prefix or store. Restore it from a backup; an item can also be removed or overwritten."
        ),
        (
            .deviceKeyMismatch(path: "/s/device-key"), -25293,
            "The device key /s/device-key is not the one this store was made with. Put the right one back; nothing was changed."
        ),
        (
            .unsupportedVersion(record: "/s/x", version: 2), -67704,
            "/s/x is of a format, number 2, that this Lockbox does not know. Update the program; nothing was changed."
        ),
        (
            .unsafePermissions(path: "/s", reason: "it is a FIFO, not a plain file"), -61,
            "/s is not safe to use: it is a FIFO, not a plain file."
        ),
        (
            .storageFailure(operation: "fsync", path: "/s/x", errno: EIO), -36,
            "fsync failed on /s/x: Input/output error (errno 5)."
        ),
        (
            .storageFailure(operation: "flock", path: "/s/lock", errno: EWOULDBLOCK), -36,
            "Another process has held the lock /s/lock all the time. See what it is doing, and try again."
        ),
        (
            .storageFailure(operation: "stat", path: "/s", errno: ESTALE), -36,
            "/s was moved or replaced while it was open. Restart the program to use what is there now."
        ),
        (
            .storageFailure(operation: "write", path: "/s/x", errno: ENOSPC), -34,
            "write failed on /s/x: No space left on device (errno 28)."
        ),
    ]

    @Test func descriptionsSayWhatToDo() {
        for (error, _, description) in Self.all {
            #expect(error.description == description)
            #expect(error.debugDescription == description)
            #expect((error as any Error).localizedDescription == description)
        }
        #expect(Set(Self.all.map(\.error.name)).count == 21, "a case is not pinned here")
    }

    @Test func statusesAreTheKeychains() {
        for (error, status, _) in Self.all {
            #expect(error.osStatus == status)
            #expect((error as NSError).code == Int(status))
        }
    }

    @Test func canBeMatchedInACatch() throws {
        let lockbox = try Lockbox(keyPrefix: "p", backend: InMemoryBackend())
        do {
            try lockbox.archiveObject(1, forKey: "k", policy: .updateOnly)
            Issue.record("no error")
        } catch LockboxError.itemNotFound(let key) {
            #expect(key == "k")
        }
    }

    /// However a program prints an error or a value of ours.
    @Test("Promise 7: secrets do not appear in error texts and descriptions")
    func noWayOfPrintingShowsAValue() throws {
        enum Mode: String, Codable { case on }
        let lockbox = try Lockbox(keyPrefix: "p", backend: InMemoryBackend())
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

        for subject in [decoding, encoding, value, item] as [Any] {
            var dumped = ""
            dump(subject, to: &dumped)
            let bytes = Array("hunter2".utf8).map(String.init).joined(separator: " ")
            var texts = [
                "\(subject)", String(reflecting: subject), dumped, "\([subject])",
                "\(Optional(subject) as Any)",
            ]
            if let error = subject as? LockboxError {
                let ns = error as NSError
                texts += [error.localizedDescription, ns.description, ns.debugDescription, "\(ns.userInfo)"]
            }
            for text in texts {
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
