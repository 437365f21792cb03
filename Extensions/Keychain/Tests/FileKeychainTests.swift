import LockboxKeychainTesting
import Foundation
import LockboxKeychain
import LockboxTesting
import Testing

/// macOS's two keychains, and more of what the simulation refuses. Each test names where the rule is from: a file of Apple's
/// Security 61901, or documentation.
@Suite struct FileKeychainTests {
    private typealias Attributes = KeychainCalls.Attributes

    private let mac = KeychainSimulator(platform: .macOS)

    private func item(_ account: String, _ more: Attributes = [:]) -> Attributes {
        ["class": .text("genp"), "acct": .text(account), "svce": .text("s")].merging(more) { $1 }
    }

    private let isProtected: Attributes = ["nleg": .bool(true)]
    private let all: Attributes = ["m_Limit": .text("m_LimitAll"), "r_Attributes": .bool(true)]

    private func accounts(_ query: Attributes) -> [String] {
        let (_, items) = mac.copyMatching(
            ["class": .text("genp")].merging(query) { $1 }.merging(all) { $1 }
        )
        return items.compactMap {
            if case .text(let account)? = $0["acct"] { account } else { nil }
        }.sorted()
    }

    @Test(
        "SecItem.cpp, SecItemAdd and SecItemCategorizeQuery: without nleg, items go into the file; synchronizable ones cannot"
    )
    func whereItemsGo() {
        #expect(mac.add(item("file")) == 0)
        #expect(mac.add(item("protected", isProtected)) == 0)
        #expect(mac.add(item("cloud", ["sync": .bool(true)])) == 0)
        #expect(accounts(isProtected) == ["protected"])
        #expect(accounts(["nleg": .bool(true), "sync": .text("syna")]) == ["cloud", "protected"])
        #expect(accounts([:]) == ["file", "protected"])
        #expect(mac.add(item("file")) == -25299)
        #expect(mac.add(item("file", isProtected)) == 0)
        #expect(mac.add(["class": .text("keys")]) == -4)
    }

    @Test("SecItem.cpp, SecItemMergeResults: without an entitlement or with a locked item, the file answers")
    func merging() {
        #expect(mac.add(item("file")) == 0)
        #expect(mac.add(item("protected", isProtected)) == 0)
        mac.isLocked = true
        #expect(mac.copyMatching(item("protected", isProtected)).status == -25308)
        #expect(accounts([:]) == ["file"])
        let unsigned = KeychainSimulator(platform: .macOS, accessGroups: [])
        #expect(unsigned.add(item("a")) == 0)
        #expect(unsigned.copyMatching(item("a")).status == 0)
        #expect(unsigned.add(item("a", isProtected)) == -34018)
    }

    @Test(
        "SecItem.cpp, _CreateSecItemParamsFromDictionary: the file gives no values of all passwords at once"
    )
    func valuesOfAll() {
        #expect(mac.add(item("file", ["v_Data": .data(Data([1]))])) == 0)
        #expect(mac.copyMatching(item("file", all).merging(["r_Data": .bool(true)]) { $1 }).status == -50)
        #expect(
            mac.copyMatching(item("file", ["r_Data": .bool(true)])).items == [["v_Data": .data(Data([1]))]]
        )
    }

    @Test("SecItem.cpp, SecItemCopyTranslatedAttributes: the file knows no class and no group")
    func attributes() throws {
        #expect(mac.add(item("file", ["pdmn": .text("ck"), "agrp": .text("T.other")])) == 0)
        #expect(accounts(["pdmn": .text("dk")]) == ["file"])
        let found = try #require(mac.copyMatching(item("file", ["r_Attributes": .bool(true)])).items.first)
        #expect(found["pdmn"] == nil && found["agrp"] == nil && found["class"] == .text("genp"))
    }

    @Test("SecItem.cpp, SecItemDelete_osx and SecItemUpdate_osx: one item, unless the limit is all")
    func oneAtATime() {
        for account in ["a", "b", "c"] { #expect(mac.add(item(account)) == 0) }
        let query: Attributes = ["class": .text("genp"), "svce": .text("s")]
        #expect(mac.update(query, ["labl": .text("new")]) == 0)
        #expect(accounts(["labl": .text("new")]).count == 1)
        #expect(mac.delete(query) == 0)
        #expect(accounts([:]).count == 2)
        #expect(mac.delete(query.merging(["m_Limit": .text("m_LimitAll")]) { $1 }) == 0)
        #expect(accounts([:]).isEmpty)
        #expect(mac.delete(query) == -25300)
    }

    @Test("SecItem.cpp, SecItemIsIOSPersistentReference: a reference says which keychain it is of")
    func references() throws {
        #expect(mac.add(item("a", ["v_Data": .data(Data([1]))])) == 0)
        #expect(mac.add(item("a", isProtected)) == 0)
        let query = item("a", all).merging(["r_PersistentRef": .bool(true)]) { $1 }
        let references = mac.copyMatching(query).items.compactMap { $0["v_PersistentRef"] }
        #expect(references.count == 2)
        let isOfFile: (KeychainValue) -> Bool = {
            if case .data(let bytes) = $0 { bytes.count != 20 } else { false }
        }
        let file = try #require(references.first(where: isOfFile))
        #expect(
            mac.copyMatching(["v_PersistentRef": file, "r_Data": .bool(true)]).items == [
                ["v_Data": .data(Data([1]))]
            ]
        )
        #expect(mac.copyMatching(["v_PersistentRef": file, "nleg": .bool(true)]).status == -50)
        #expect(mac.delete(["v_PersistentRef": file]) == 0)
        #expect(mac.delete(["v_PersistentRef": file]) == -25300)
        #expect(accounts([:]) == ["a"] && accounts(isProtected) == ["a"])
    }

    // MARK: Both systems

    private let keychain = KeychainSimulator()

    @Test("SecDbQuery.c, query_add_match: matching by policy and the like is not simulated, -4")
    func matches() {
        #expect(keychain.copyMatching(item("a", ["m_Policy": .text("x")])).status == -4)
    }

    @Test("SecDbQuery.c, query_add_value: references to objects cannot be passed, -50")
    func objects() {
        #expect(keychain.copyMatching(item("a", ["v_Ref": .data(Data())])).status == -50)
        #expect(keychain.add(item("a", ["v_Ref": .data(Data())])) == -50)
    }

    @Test(
        "SecDbQuery.c, query_add_use: a context and allowed prompts change nothing for an item without access control"
    )
    func interaction() {
        #expect(keychain.add(item("a")) == 0)
        for use: Attributes in [["u_AuthCtx": .data(Data())], ["u_AuthUI": .text("u_AuthUIA")]] {
            #expect(keychain.copyMatching(item("a", use)).status == 0)
        }
        let asked = item("b", ["accc": .accessControl("ak", .userPresence), "v_Data": .data(Data([1]))])
        #expect(keychain.add(asked) == 0)
        let query = item("b", ["u_AuthUI": .text("u_AuthUIA"), "r_Data": .bool(true)])
        #expect(keychain.copyMatching(query).status == -128, "nobody answers")
    }

    @Test("SecItemSchema.c: the class of a certificate that names none is dk, of other items ak")
    func defaultClasses() {
        for (name, accessibility) in ["cert": "dk", "genp": "ak", "inet": "ak", "keys": "ak"] {
            #expect(keychain.add(["class": .text(name)]) == 0)
            let found = keychain.copyMatching(["class": .text(name), "r_Attributes": .bool(true)]).items.first
            #expect(found?["pdmn"] == .text(accessibility), "\(name)")
        }
    }

    @Test("SecDbItem.c, copyData: a serial number may be given as a number, which becomes its four bytes")
    func serialNumbers() {
        #expect(keychain.add(["class": .text("cert"), "slnr": .int(258)]) == 0)
        #expect(keychain.add(["class": .text("cert"), "slnr": .data(Data([2, 1, 0, 0]))]) == -25299)
    }

    @Test("SecItemDb.c, SecDbItemUpdate: an update may change the class of an open item")
    func changeOfClass() {
        #expect(keychain.add(item("a")) == 0)
        #expect(keychain.update(item("a"), ["pdmn": .text("ck")]) == 0)
        keychain.isLocked = true
        #expect(keychain.copyMatching(item("a", ["r_Data": .bool(true)])).status == 0)
    }
}
