import LockboxKeychainTesting
import Foundation
import LockboxTesting
import Testing

import Lockbox
import LockboxKeychain

/// Items that the user must confirm, in the simulated Keychain and in the backend. The source of a rule is named as in
/// ``KeychainSimulatorTests``.
@Suite struct AccessControlTests {
    private typealias Attributes = KeychainCalls.Attributes

    private let keychain = KeychainSimulator()

    private func item(_ account: String = "a", _ more: Attributes = [:]) -> Attributes {
        ["class": .text("genp"), "acct": .text(account), "svce": .text("s")].merging(more) { $1 }
    }

    private let value: Attributes = ["v_Data": .data(Data("v".utf8))]

    private let asked: Attributes = ["accc": .accessControl("ak", .userPresence)]

    // MARK: The simulator

    @Test(
        "SecDbQuery.c, query_set_access_control: a control has the class, and there is no other beside it, -50"
    )
    func theClass() {
        let control: Attributes = ["accc": .accessControl("akpu", .userPresence)]
        for name in ["ck", "akpu"] {
            #expect(keychain.add(item("a", control).merging(["pdmn": .text(name)]) { $1 }) == -50)
        }
        #expect(keychain.add(item("a", ["accc": .accessControl("no class", .userPresence)])) == -50)
        #expect(keychain.add(item("a", control).merging(value) { $1 }) == 0)
        keychain.user = .confirms
        // `s3dl_query_update` in SecItemDb.c would drop the control.
        for name in ["ck", "akpu"] { #expect(keychain.update(item(), ["pdmn": .text(name)]) == -50) }
        let found = keychain.copyMatching(item("a", ["r_Attributes": .bool(true)])).items.first
        #expect(found?["pdmn"] == .text("akpu"))
    }

    @Test(
        "SecItem.m, SecItemAuthDoQuery: an access control is nothing else, -50, and not synchronizable, -50"
    )
    func theKind() {
        for value: KeychainValue in [.data(Data("ak".utf8)), .text("ak"), .int(1)] {
            #expect(keychain.add(item("a", ["accc": value])) == -50)
        }
        #expect(keychain.add(item("a", asked).merging(["sync": .bool(true)]) { $1 }) == -50)
        let none: Attributes = ["accc": .accessControl("ak", [])]
        #expect(keychain.add(item("a", none).merging(["sync": .bool(true)]) { $1 }) == -50)
        #expect(keychain.add(item("a", none)) == 0)
        #expect(keychain.copyMatching(item()).status == 0, "nobody is asked")
    }

    @Test(
        "SecAccessControl.m, SecAccessControlCreateWithFlags: flags that do not go together make none, -50",
        arguments: [[.or, .and], [.biometryAny, .biometryCurrentSet], [.userPresence, .devicePasscode]]
            as [KeychainAccessControl]
    )
    func flags(_ flags: KeychainAccessControl) {
        #expect(keychain.add(item("a", ["accc": .accessControl("ak", flags)])) == -50)
        let others: KeychainAccessControl = [.biometryAny, .devicePasscode, .companion, .or]
        #expect(keychain.add(item("a", ["accc": .accessControl("ak", others)])) == 0, "the control")
    }

    @Test(
        "SecDbKeychainItem.m, ks_decrypt_data: whatever is asked of an item, the user is asked",
        arguments: ["r_Data", "r_Attributes", "r_PersistentRef", ""]
    )
    func everyRead(_ result: String) {
        #expect(keychain.add(item("a", asked).merging(value) { $1 }) == 0)
        #expect(keychain.add(item("b", value)) == 0)
        let query = item("a", result.isEmpty ? [:] : [result: .bool(true)])
        func status(_ use: String? = nil) -> Int32 {
            keychain.copyMatching(query.merging(use.map { ["u_AuthUI": .text($0)] } ?? [:]) { $1 }).status
        }
        #expect(status() == -128 && keychain.promptCount == 1)
        keychain.user = .isNotRecognized
        #expect(status("u_AuthUIA") == -25293 && keychain.promptCount == 2)
        keychain.user = .confirms
        #expect(status("u_AuthUIF") == -25308 && status("u_AuthUIS") == -25300)
        #expect(keychain.promptCount == 2)
        #expect(status() == 0 && keychain.promptCount == 3)
    }

    @Test(
        "SecItemDb.c, s3dl_query: a query of several items asks for all, or leaves out those that would be asked for"
    )
    func lists() {
        for name in ["a", "b"] { #expect(keychain.add(item(name, asked)) == 0) }
        #expect(keychain.add(item("c")) == 0)
        let all: Attributes = [
            "class": .text("genp"), "m_Limit": .text("m_LimitAll"), "r_Attributes": .bool(true),
        ]
        #expect(keychain.copyMatching(all).status == -128)
        #expect(keychain.copyMatching(all.merging(["u_AuthUI": .text("u_AuthUIS")]) { $1 }).items.count == 1)
        keychain.user = .confirms
        #expect(keychain.copyMatching(all).items.count == 3)
        keychain.isLocked = true
        #expect(keychain.copyMatching(all).status == -25308)
        #expect(keychain.promptCount == 2, "nobody is asked for what is locked")
        #expect(keychain.copyMatching(all.merging(["u_AuthUI": .text("u_AuthUIS")]) { $1 }).status == -25308)
    }

    @Test("SecItemDb.c, s3dl_query_update and s3dl_query_delete: an update asks, a deletion does not")
    func changes() {
        #expect(keychain.add(item("a", asked)) == 0)
        #expect(keychain.update(item(), value) == -128)
        #expect(keychain.update(item("a", ["u_AuthUI": .text("u_AuthUIF")]), value) == -25308)
        keychain.user = .confirms
        #expect(keychain.update(item(), value) == 0)
        #expect(keychain.copyMatching(item("a", ["r_Data": .bool(true)])).items == [value])
        #expect(keychain.update(item(), ["accc": .accessControl("ck", .biometryAny)]) == 0)
        keychain.user = .cancels
        #expect(keychain.copyMatching(item()).status == -128, "the new control")
        #expect(keychain.delete(item()) == 0)
    }

    @Test("SecItem.m, SecItemAuthDoQuery: items can be skipped in queries only, -50")
    func skipping() {
        let skipped = item("a", ["u_AuthUI": .text("u_AuthUIS")])
        #expect(keychain.add(skipped) == -50)
        #expect(keychain.add(item()) == 0)
        #expect(keychain.update(skipped, value) == -50)
        #expect(keychain.delete(skipped) == -50)
        #expect(keychain.copyMatching(skipped).status == 0)
    }

    // MARK: The backend

    private var backend: KeychainBackend { KeychainBackend(keychain, accessControl: .userPresence) }

    private func lockbox(_ backend: KeychainBackend? = nil) throws -> Lockbox {
        try (backend ?? self.backend).lockbox("p")
    }

    private func code(_ body: () throws -> Void) -> LockboxError.Code? {
        do { try body() } catch let error as LockboxError { return error.code } catch {}
        return nil
    }

    /// The suite asks for more than a user would bear, and gets it.
    @Test(arguments: BackendConformance.all)
    func conforms(_ requirement: BackendConformance) throws {
        try requirement.check {
            let keychain = KeychainSimulator(platform: .macOS)
            keychain.user = .confirms
            return KeychainBackend(keychain, accessControl: [.biometryCurrentSet, .devicePasscode, .or])
        }
    }

    /// How often the user is asked is what the documentation says.
    @Test func theUserIsAsked() throws {
        let lockbox = try lockbox()
        var count = 0
        func prompts() -> Int {
            defer { count = keychain.promptCount }
            return keychain.promptCount - count
        }
        keychain.user = .confirms
        try lockbox.archiveObject(
            "v",
            forKey: "k",
            options: WriteOptions(accessibility: .afterFirstUnlock, label: "l")
        )
        #expect(prompts() == 0, "there was nothing to read")
        try lockbox.archiveObject("w", forKey: "other")
        #expect(prompts() == 0)
        #expect(try lockbox.unarchiveObject(forKey: "k") == "v")
        #expect(prompts() == 1)
        #expect(try lockbox.allKeys().count == 2)
        #expect(prompts() == 1)
        try lockbox.archiveObject("x", forKey: "k")
        #expect(prompts() == 2)
        let item = try #require(try backend.item(for: ItemKey(prefix: "p", key: "k"), now: nil))
        #expect(item.attributes.accessibility == .afterFirstUnlock && item.attributes.label == "l")
        #expect(prompts() == 1)
        try lockbox.batch { batch in
            try batch.archiveObject("y", forKey: "k")
            try batch.archiveObject("y", forKey: "new")
        }
        #expect(prompts() == 3)
        try lockbox.moveObject(forKey: "k", toKey: "other", policy: .replace)
        #expect(prompts() == 6, "the old item is compared before the new one is written")
        try lockbox.moveObject(forKey: "other", toKey: "k")
        #expect(prompts() == 2)
        #expect(try lockbox.unarchiveObject(String.self, forKey: "absent") == nil)
        try lockbox.removeObject(forKey: "k")
        try lockbox.removeAllObjects()
        #expect(prompts() == 0)
    }

    @Test func whatTheUserDoesNotConfirmChangesNothing() throws {
        let lockbox = try lockbox()
        try lockbox.archiveObject("v", forKey: "k")
        for (user, code) in [.cancels: .userCanceled, .isNotRecognized: .accessDenied]
            as [KeychainSimulator.User: LockboxError.Code]
        {
            keychain.user = user
            #expect(self.code { _ = try lockbox.unarchiveObject(String.self, forKey: "k") } == code)
            #expect(self.code { try lockbox.archiveObject("w", forKey: "k") } == code)
            #expect(self.code { _ = try lockbox.allKeys() } == code)
        }
        keychain.user = .confirms
        #expect(try lockbox.unarchiveObject(forKey: "k") == "v")
    }

    /// A program that does not expect a prompt gets none.
    @Test func withoutAccessControlSuchItemsCountAsLocked() throws {
        try lockbox().archiveObject("v", forKey: "k")
        keychain.user = .confirms
        let other = try lockbox(KeychainBackend(keychain))
        let count = keychain.promptCount
        #expect(code { _ = try other.unarchiveObject(String.self, forKey: "k") } == .interactionNotAllowed)
        #expect(code { try other.archiveObject("w", forKey: "k") } == .interactionNotAllowed)
        #expect(keychain.promptCount == count)
    }

    /// An item from before the program had an access control gets one with the next write.
    @Test func anItemGetsTheAccessControlWhenItIsReplaced() throws {
        let open = try lockbox(KeychainBackend(keychain))
        try open.archiveObject("v", forKey: "k", accessibility: .afterFirstUnlock)
        try lockbox().archiveObject("w", forKey: "k")
        #expect(keychain.promptCount == 0)
        #expect(code { _ = try open.unarchiveObject(String.self, forKey: "k") } == .interactionNotAllowed)
        keychain.user = .confirms
        #expect(try lockbox().unarchiveObject(forKey: "k") == "w")
    }

    /// An item of another program in the place, and an error that names the class of a locked item.
    @Test func nobodyIsAskedForWhatIsNotTheirs() throws {
        let foreign: Attributes = [
            "class": .text("genp"), "svce": .text("p"), "acct": .text("k"),
            "accc": .accessControl("ak", .userPresence),
        ]
        #expect(keychain.add(foreign) == 0)
        let error = #expect(throws: LockboxError.self) { try lockbox().archiveObject("v", forKey: "k") }
        #expect(error?._code == -25299)
        try lockbox().archiveObject("v", forKey: "open", accessibility: .afterFirstUnlock)
        try lockbox().archiveObject("v", forKey: "locked", accessibility: .whenUnlockedThisDeviceOnly)
        keychain.isLocked = true
        #expect(throws: LockboxError.interactionNotAllowed(.whenUnlockedThisDeviceOnly)) {
            try lockbox().allKeys()
        }
        #expect(keychain.promptCount == 0)
    }

    @Test func synchronizableItemsHaveNone() throws {
        let backend = KeychainBackend(keychain, isSynchronizable: true, accessControl: .userPresence)
        #expect(code { try lockbox(backend).archiveObject("v", forKey: "k") } == .invalidAttribute)
        #expect(try lockbox(backend).unarchiveObject(String.self, forKey: "k") == nil)
    }

    /// Nobody would be asked, or nothing could be read.
    @Test(arguments: [
        .or, [.and, .or], KeychainAccessControl(rawValue: 1 << 30), .init(rawValue: 1 << 31 | 1),
    ])
    func flagsThatAskNobodyAreRefused(_ flags: KeychainAccessControl) throws {
        let backend = KeychainBackend(keychain, accessControl: flags)
        #expect(code { try lockbox(backend).archiveObject("v", forKey: "k") } == .invalidAttribute)
    }

    @Test func flagsThatDoNotGoTogetherAreRefused() throws {
        let backend = KeychainBackend(keychain, accessControl: [.userPresence, .devicePasscode])
        let error = #expect(throws: LockboxError.self) {
            try lockbox(backend).archiveObject("v", forKey: "k")
        }
        #expect(error?._code == -50)
    }
}
