import LockboxKeychainTesting
import Foundation
import LockboxKeychain
import LockboxTesting
import Testing

/// The simulated Keychain refuses what Apple's refuses, with the same code. Each test names where the rule is from: a file of
/// Apple's Security 61901, or documentation.
@Suite struct KeychainSimulatorTests {
    private typealias Attributes = KeychainCalls.Attributes

    private let keychain = KeychainSimulator(accessGroups: ["T.app", "T.shared"])

    private func item(_ account: String = "a", _ more: Attributes = [:], of name: String = "genp")
        -> Attributes
    {
        ["class": .text(name), "acct": .text(account), "svce": .text("s")].merging(more) { $1 }
    }

    private func value(_ text: String) -> Attributes { ["v_Data": .data(Data(text.utf8))] }

    private func accounts(_ query: Attributes = [:]) -> [String] {
        let all: Attributes = [
            "class": .text("genp"), "m_Limit": .text("m_LimitAll"), "r_Attributes": .bool(true),
        ]
        return keychain.copyMatching(all.merging(query) { $1 }).items.map { $0["acct"]?.description ?? "" }
    }

    private func count(_ query: Attributes = [:]) -> Int { accounts(query).count }

    // MARK: Queries (SecDbQuery.c)

    @Test("SecDbQuery.c, query_set_class: no class is -50, an unknown one -25306")
    func classes() {
        #expect(keychain.add(["acct": .text("a")]) == -50)
        #expect(keychain.copyMatching(["acct": .text("a")]).status == -50)
        #expect(keychain.add(["class": .int(1)]) == -50)
        #expect(keychain.add(["class": .text("nope")]) == -25306)
        #expect(keychain.delete(["class": .text("nope")]) == -25306)
        for name in ["genp", "inet", "cert", "keys"] { #expect(keychain.add(["class": .text(name)]) == 0) }
    }

    @Test("SecDbQuery.c, query_add_attribute: an attribute of no class or of another class is -25303")
    func attributes() {
        #expect(keychain.add(item("a", ["abcd": .text("x")])) == -25303)
        #expect(keychain.add(item("a", ["srvr": .text("x")])) == -25303)
        #expect(keychain.add(["class": .text("inet"), "svce": .text("x")]) == -25303)
        #expect(keychain.add(["class": .text("cert"), "acct": .text("x")]) == -25303)
        #expect(keychain.add(["class": .text("keys"), "gena": .text("x")]) == -25303)
        #expect(count() == 0)
    }

    @Test("SecDbQuery.c, query_applier: a key that is neither four letters nor of a known kind is -50")
    func keys() {
        for key in ["acc", "account", "x", "r_Nothing", "u_Nothing", "v_Nothing"] {
            #expect(keychain.copyMatching(item("a", [key: .text("x")])).status == -50, "\(key)")
        }
    }

    @Test("SecDbItem.c, copyBlob, copyDate, copyNumber: an attribute of a wrong type is -50")
    func types() {
        let wrong: [Attributes] = [
            ["labl": .bool(true)], ["gena": .date(Date())], ["cdat": .text("today")], ["crtr": .data(Data())],
            ["agrp": .int(1)], ["v_Data": .text("text")],
        ]
        for attribute in wrong { #expect(keychain.add(item("a", attribute)) == -50, "\(attribute)") }
        #expect(keychain.add(item("a", ["invi": .bool(true), "labl": .data(Data([1]))])) == 0)
    }

    @Test("SecDbQuery.c, query_add_return: only a boolean asks for a result")
    func results() {
        _ = keychain.add(item())
        #expect(keychain.copyMatching(item("a", ["r_Data": .int(1)])).status == -50)
        #expect(keychain.copyMatching(item("a", ["r_Attributes": .text("true")])).status == -50)
    }

    @Test("SecDbQuery.c, query_add_match: a limit is one, all or a number above 0")
    func limits() {
        for limit in [KeychainValue.int(0), .int(-1), .text("all"), .bool(true)] {
            #expect(keychain.copyMatching(item("a", ["m_Limit": limit])).status == -50)
        }
    }

    @Test("SecDbQuery.c, query_add_attribute: blobs are compared by bytes, so NFC and NFD differ")
    func bytes() {
        #expect(keychain.add(item("Caf\u{E9}")) == 0)
        #expect(keychain.copyMatching(item("Cafe\u{301}")).status == -25300)
        #expect(keychain.add(item("Cafe\u{301}")) == 0)
        // Text and data with the same bytes are the same.
        let data = item("a", ["acct": .data(Data("Caf\u{E9}".utf8))])
        #expect(keychain.copyMatching(data).status == 0)
        #expect(keychain.add(data) == -25299)
    }

    @Test("SecDbKeychainItem.m, kc_parse_keyclass: an unknown accessibility is -50")
    func accessibilities() {
        #expect(keychain.add(item("a", ["pdmn": .text("xx")])) == -50)
        #expect(keychain.add(item()) == 0)
        #expect(keychain.update(item(), ["pdmn": .text("xx")]) == -50)
    }

    // MARK: Primary keys (SecItemSchema.c)

    @Test("SecItemSchema.c: absent parts of a primary key have defaults")
    func primaryKeys() {
        let pairs: [(Attributes, Attributes)] = [
            (["class": .text("genp")], ["class": .text("genp"), "acct": .text(""), "svce": .text("")]),
            (["class": .text("inet")], ["class": .text("inet"), "port": .int(0), "path": .text("")]),
            (["class": .text("cert")], ["class": .text("cert"), "ctyp": .int(0), "slnr": .data(Data())]),
            (["class": .text("keys")], ["class": .text("keys"), "kcls": .text("0"), "atag": .text("")]),
        ]
        for (absent, given) in pairs {
            #expect(keychain.add(absent) == 0)
            #expect(keychain.add(given) == -25299, "\(absent)")
        }
    }

    @Test(
        "SecItemSchema.c: label, generic attribute and class are not in the key; a query for them finds nothing, an add collides"
    )
    func otherAttributes() {
        let other: Attributes = ["gena": .text("2"), "labl": .text("l2"), "pdmn": .text("ck")]
        #expect(keychain.add(item("a", ["gena": .text("1"), "labl": .text("l")])) == 0)
        #expect(keychain.copyMatching(item("a", other)).status == -25300)
        #expect(keychain.add(item("a", other)) == -25299)
    }

    @Test("SecItemSchema.c: server, port and protocol are parts of an internet password's key")
    func internetPasswords() {
        let server: Attributes = ["class": .text("inet"), "srvr": .text("s"), "acct": .text("a")]
        #expect(keychain.add(server.merging(["port": .int(1)]) { $1 }) == 0)
        #expect(keychain.add(server.merging(["port": .int(2)]) { $1 }) == 0)
        #expect(keychain.add(server.merging(["port": .int(2), "ptcl": .text("http")]) { $1 }) == 0)
        #expect(keychain.add(server.merging(["port": .text("2"), "desc": .text("d")]) { $1 }) == -25299)
    }

    // MARK: SecItemAdd

    @Test(
        "SecItemServer.c, SecServerItemAdd: results without a place, matches and persistent references are -50"
    )
    func addRefuses() {
        #expect(keychain.add(item("a", ["r_Data": .bool(true)])) == -50)
        #expect(keychain.add(item("a", ["m_Limit": .text("m_LimitOne")])) == -50)
        #expect(keychain.add(["v_PersistentRef": .data(Data("genp".utf8) + Data(count: 16))]) == -50)
        #expect(keychain.add(["class": .text("idnt")]) == -50)
        #expect(count() == 0)
    }

    @Test("SecDbQuery.c, query_pre_add: both dates are now, whatever was given")
    func dates() {
        let now = Date(timeIntervalSinceReferenceDate: 8e8)
        let keychain = KeychainSimulator(now: { now })
        #expect(keychain.add(item("a", ["cdat": .date(.distantPast), "mdat": .date(.distantPast)])) == 0)
        let found = keychain.copyMatching(item("a", ["r_Attributes": .bool(true)])).items
        #expect(found.first?["cdat"] == .date(now) && found.first?["mdat"] == .date(now))
    }

    @Test(
        "SecItemDb.c, s3dl_query_add: akpu without a passcode is -25293; documentation: removing the passcode removes such items"
    )
    func passcode() {
        #expect(keychain.add(item("a", ["pdmn": .text("akpu")])) == 0)
        keychain.hasPasscode = false
        #expect(count() == 0)
        #expect(keychain.add(item("a", ["pdmn": .text("akpu")])) == -25293)
        #expect(keychain.add(item("b")) == 0)
        #expect(keychain.update(item("b"), ["pdmn": .text("akpu")]) == -25293)
    }

    // MARK: SecItemCopyMatching

    @Test("SecItemDb.c, handle_result: a query gets what it asks for")
    func handleResult() {
        #expect(keychain.add(item("empty", ["pdmn": .text("ck")])) == 0)
        #expect(keychain.add(item("full").merging(value("v")) { $1 }) == 0)
        func ask(_ account: String, _ parts: String...) -> Attributes? {
            let asked = Attributes(uniqueKeysWithValues: parts.map { ($0, .bool(true)) })
            let (status, items) = keychain.copyMatching(item(account, asked))
            #expect(status == 0)
            return items.first
        }
        #expect(ask("full") == nil)
        #expect(ask("full", "r_Data") == ["v_Data": .data(Data("v".utf8))])
        #expect(ask("empty", "r_Data") == ["v_Data": .data(Data())])
        let attributes = ask("full", "r_Attributes")
        #expect(
            attributes?["v_Data"] == nil && attributes?["acct"] == .text("full")
                && attributes?["pdmn"] == .text("ak")
        )
        #expect(ask("full", "r_Attributes", "r_Data")?["v_Data"] == .data(Data("v".utf8)))
        let empty = ask("empty", "r_Attributes", "r_Data")
        #expect(empty != nil && empty?["v_Data"] == nil)
        #expect(ask("full", "r_Attributes")?["class"] == nil)
        #expect(ask("full", "r_Ref")?["class"] == .text("genp"))
        #expect(ask("full", "r_PersistentRef")?.keys.sorted() == ["v_PersistentRef"])
    }

    @Test(
        "SecItemServer.c, SecServerItemCopyMatching: one item unless a limit says otherwise; none is -25300"
    )
    func limit() {
        for account in ["a", "b", "c"] { #expect(keychain.add(item(account)) == 0) }
        let all: Attributes = ["class": .text("genp"), "r_Attributes": .bool(true)]
        #expect(keychain.copyMatching(all).items.count == 1)
        #expect(keychain.copyMatching(all.merging(["m_Limit": .int(2)]) { $1 }).items.count == 2)
        #expect(count() == 3)
        #expect(keychain.copyMatching(item("d", ["m_Limit": .text("m_LimitAll")])).status == -25300)
    }

    @Test("SecItemDb.c: there is no ORDER BY")
    func order() {
        for number in 0..<10 { #expect(keychain.add(item("\(number)")) == 0) }
        func labels() -> [KeychainValue?] {
            let query: Attributes = [
                "class": .text("genp"), "m_Limit": .text("m_LimitAll"), "r_Attributes": .bool(true),
            ]
            return keychain.copyMatching(query).items.map { $0["acct"] }
        }
        let first = labels()
        #expect((0..<20).contains { _ in labels() != first })
    }

    @Test(
        "SecItemDb.c, s3dl_copy_matching: a persistent reference with any attribute is -50; it survives updates"
    )
    func persistentReferences() {
        #expect(keychain.add(item().merging(value("v")) { $1 }) == 0)
        let found = keychain.copyMatching(item("a", ["r_PersistentRef": .bool(true)])).items.first
        guard case .data(let reference)? = found?["v_PersistentRef"] else {
            Issue.record("no reference"); return
        }
        #expect(reference.count == 20)
        let query: Attributes = ["v_PersistentRef": .data(reference), "r_Data": .bool(true)]
        #expect(keychain.copyMatching(query.merging(["acct": .text("a")]) { $1 }).status == -50)
        #expect(
            keychain.copyMatching(["v_PersistentRef": .data(Data(count: 20)), "class": .text("genp")]).status
                == -25300
        )
        #expect(keychain.copyMatching(["v_PersistentRef": .data(Data("genp".utf8))]).status == -50)
        #expect(keychain.update(item(), ["acct": .text("b")]) == 0)
        #expect(keychain.copyMatching(query).items == [["v_Data": .data(Data("v".utf8))]])
        #expect(keychain.delete(["v_PersistentRef": .data(reference)]) == 0)
        #expect(count() == 0)
    }

    @Test(
        "SecItemDb.c, SecDbAppendWhereClause: an identity is a private key and a certificate with its digest"
    )
    func identities() {
        let digest = KeychainValue.data(Data([1, 2]))
        let key: Attributes = ["class": .text("keys"), "klbl": digest, "priv": .int(1)]
        let query: Attributes = ["class": .text("idnt"), "r_Attributes": .bool(true)]
        #expect(keychain.add(key) == 0)
        #expect(keychain.copyMatching(query).status == -25300)
        #expect(keychain.add(["class": .text("cert"), "pkhh": digest, "slnr": .data(Data([7]))]) == 0)
        #expect(keychain.copyMatching(query).items.first?["slnr"] == .data(Data([7])))
        #expect(keychain.delete(["class": .text("idnt")]) == -50)
    }

    // MARK: SecItemUpdate and SecItemDelete

    @Test("SecItemDb.c, s3dl_query_update: matches, results and other names are refused; none is -25300")
    func updateRefuses() {
        _ = keychain.add(item())
        #expect(keychain.update(item("b"), ["labl": .text("l")]) == -25300)
        #expect(keychain.update(item("a", ["m_Limit": .text("m_LimitAll")]), ["labl": .text("l")]) == -50)
        #expect(keychain.update(item("a", ["r_Data": .bool(true)]), ["labl": .text("l")]) == -50)
        for name in ["class", "r_Data", "m_Limit", "v_PersistentRef", "nleg", "abcd"] {
            #expect(keychain.update(item(), [name: .text("genp")]) == -25303, "\(name)")
        }
    }

    @Test("SecItemDb.c, s3dl_query_update: all matches change, or none if a key is taken")
    func updateIsOneTransaction() {
        for account in ["a", "b"] { #expect(keychain.add(item(account, ["labl": .text("old")])) == 0) }
        let all: Attributes = ["class": .text("genp"), "svce": .text("s")]
        #expect(keychain.update(all, ["labl": .text("new")]) == 0)
        #expect(count(["labl": .text("new")]) == 2)
        #expect(keychain.update(item("b"), ["acct": .text("a")]) == -25299)
        #expect(keychain.update(all, ["acct": .text("c"), "labl": .text("newer")]) == -25299)
        #expect(count(["labl": .text("new")]) == 2)
    }

    @Test("SecItemDb.c, SecDbItemUpdate: an update sets the date of modification, and keeps the other")
    func updateSetsDate() {
        let times = Times()
        let keychain = KeychainSimulator(now: { times.next() })
        #expect(keychain.add(item()) == 0)
        #expect(keychain.update(item(), value("v")) == 0)
        let found = keychain.copyMatching(item("a", ["r_Attributes": .bool(true)])).items.first
        #expect(found?["cdat"] == .date(Date(timeIntervalSinceReferenceDate: 1)))
        #expect(found?["mdat"] == .date(Date(timeIntervalSinceReferenceDate: 2)))
    }

    private final class Times: @unchecked Sendable {
        // Used by one thread.
        private var time = 0.0
        func next() -> Date {
            time += 1
            return Date(timeIntervalSinceReferenceDate: time)
        }
    }

    @Test("SecItemServer.c, SecServerItemDelete: all matches go; any limit is -50, none is -25300")
    func delete() {
        for account in ["a", "b"] { #expect(keychain.add(item(account)) == 0) }
        let all: Attributes = ["class": .text("genp"), "svce": .text("s")]
        #expect(keychain.delete(all.merging(["m_Limit": .text("m_LimitAll")]) { $1 }) == -50)
        #expect(count() == 2)
        #expect(keychain.delete(all) == 0)
        #expect(keychain.delete(all) == -25300)
    }

    // MARK: Synchronizable items, groups, entitlements

    @Test("SecDbQuery.c: a query that does not name synchronizable items finds the others only")
    func synchronizable() {
        #expect(keychain.add(item("a", ["sync": .bool(true)])) == 0)
        #expect(keychain.copyMatching(item()).status == -25300)
        #expect(keychain.delete(item()) == -25300)
        #expect(keychain.add(item()) == 0)
        #expect(count() == 1 && count(["sync": .bool(true)]) == 1 && count(["sync": .text("syna")]) == 2)
        #expect(keychain.add(item("b", ["sync": .text("syna")])) == -50)
        #expect(keychain.update(item("a", ["sync": .bool(true)]), ["sync": .int(0)]) == -25299)
    }

    @Test("SecItemServer.c, SecEntitlementErrorForExplicitAccessGroup: another program's group is -34018")
    func accessGroups() {
        #expect(keychain.add(item("a", ["agrp": .text("T.other")])) == -34018)
        #expect(keychain.copyMatching(item("a", ["agrp": .text("T.other")])).status == -34018)
        #expect(keychain.delete(item("a", ["agrp": .text("T.other")])) == -34018)
        #expect(keychain.add(item()) == 0)
        #expect(keychain.update(item(), ["agrp": .text("T.other")]) == -34018)
        // The first group is the default, and all are searched.
        #expect(count(["agrp": .text("T.app")]) == 1)
        #expect(keychain.add(item("a", ["agrp": .text("T.shared")])) == 0)
        #expect(count() == 2)
        keychain.accessGroups = ["T.shared"]
        #expect(count() == 1)
    }

    @Test(
        "KeychainEntitlementsTest.m: no entitlement is -34018, but on macOS a query finds nothing",
        arguments: KeychainSimulator.Platform.allCases
    )
    func entitlements(_ platform: KeychainSimulator.Platform) {
        let keychain = KeychainSimulator(platform: platform, accessGroups: [])
        let item = item("a", ["nleg": .bool(true)])
        #expect(keychain.add(item) == -34018)
        #expect(keychain.update(item, ["labl": .text("l")]) == -34018)
        #expect(keychain.delete(item) == -34018)
        #expect(keychain.copyMatching(item).status == (platform == .macOS ? -25300 : -34018))
    }

    @Test(
        "SecItem.cpp, SecItemCopyTranslatedAttributes: macOS takes out what iOS refuses, and the date of modification"
    )
    func translation() {
        let mac = KeychainSimulator(platform: .macOS)
        let past: Attributes = ["mdat": .date(.distantPast)]
        for keychain in [keychain, mac] {
            let item = item("a", ["nleg": .bool(true)])
            let isMac = keychain === mac
            #expect(keychain.add(item) == 0)
            let refused: [Attributes] = [["m_Limit": .text("m_LimitAll")], ["v_Data": .data(Data())]]
            for more in refused {
                let query = item.merging(more) { $1 }
                #expect(keychain.update(query, ["labl": .text("l")]) == (isMac ? 0 : -50), "\(more.keys)")
            }
            let valued = item.merging(["v_Data": .data(Data([1]))]) { $1 }
            #expect(keychain.copyMatching(valued).status == (isMac ? 0 : -50))
            #expect(
                keychain.update(item.merging(["r_Data": .bool(true)]) { $1 }, ["labl": .text("l")])
                    == (isMac ? 0 : -50)
            )
            #expect(keychain.add(item.merging(["r_Data": .bool(true)]) { $1 }) == -50)
            #expect(keychain.copyMatching(item.merging(past) { $1 }).status == (isMac ? 0 : -25300))
            #expect(keychain.delete(item.merging(past) { $1 }) == (isMac ? 0 : -25300))
        }
    }

    // MARK: Locked items

    @Test(
        "SecDbKeychainMetadataKeyStore.m: values and attributes of class A are locked; one such item fails a whole list"
    )
    func locked() {
        for name in ["ak", "ck", "dk"] {
            #expect(keychain.add(item(name, ["pdmn": .text(name)])) == 0)
        }
        keychain.isLocked = true
        #expect(keychain.copyMatching(item("ck", ["r_Data": .bool(true)])).status == 0)
        #expect(keychain.copyMatching(item("ak")).status == -25308)
        #expect(keychain.copyMatching(item("absent")).status == -25300)
        let all: Attributes = [
            "class": .text("genp"), "m_Limit": .text("m_LimitAll"), "r_Attributes": .bool(true),
        ]
        #expect(keychain.copyMatching(all).status == -25308)
        #expect(keychain.copyMatching(all.merging(["pdmn": .text("ck")]) { $1 }).items.count == 1)
        #expect(keychain.add(item("new")) == -25308)
        #expect(keychain.update(item("ak"), ["labl": .text("l")]) == -25308)
        #expect(keychain.update(item("ck"), ["pdmn": .text("ak")]) == -25308)
        #expect(keychain.delete(item("ak")) == 0)
        #expect(keychain.copyMatching(all).items.count == 2)
    }

    @Test(
        "documentation of kSecAttrAccessibleAfterFirstUnlock: until the first unlock, class C is locked too"
    )
    func beforeFirstUnlock() {
        for name in ["ak", "ck", "dk"] { #expect(keychain.add(item(name, ["pdmn": .text(name)])) == 0) }
        keychain.restart()
        #expect(keychain.isLocked)
        for (name, status) in ["ak": -25308, "ck": -25308, "dk": 0] as [String: Int32] {
            #expect(keychain.copyMatching(item(name, ["r_Data": .bool(true)])).status == status, "\(name)")
        }
        keychain.isLocked = false
        keychain.isLocked = true
        #expect(keychain.copyMatching(item("ck", ["r_Data": .bool(true)])).status == 0)
    }

    @Test func printingShowsNoItem() {
        _ = keychain.add(item("account").merging(value("hunter2")) { $1 })
        for text in textsOfPrinting(keychain) + textsOfPrinting(KeychainValue.text("hunter2")) {
            #expect(!text.contains("hunter2") && !text.contains("account"))
        }
    }
}
