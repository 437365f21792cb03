import Foundation
import Lockbox
import Testing

@testable import LockboxCommand

/// What no transcript can bring about. Everything else is in ../Transcripts.
@Suite struct CommandTests {
    private func cluster(_ text: String) throws -> ClusterAddress? {
        if case .cluster(let address) = try StoreAddress(text) { address } else { nil }
    }

    @Test func addressesOfClusters() throws {
        let one = try #require(try cluster("etcd://a.example:2379,b.example/secrets/shop"))
        #expect(one.endpoints == ["https://a.example:2379", "https://b.example:2379"])
        #expect(one.root == "/secrets/shop")
        let local = try #require(try cluster("etcd+plaintext://127.0.0.1:1,[::1],[::2]:3/x"))
        #expect(local.endpoints == ["http://127.0.0.1:1", "http://[::1]:2379", "http://[::2]:3"])
        #expect(try cluster("/var/lib/x") == nil)
    }

    @Test(arguments: ["", "etcd://", "etcd://a.example", "etcd://a.example/", "etcd:///x", "http://a/x"])
    func whatIsNoAddress(_ text: String) {
        let failure = #expect(throws: Failure.self) { try StoreAddress(text) }
        #expect(failure?.status == .usage)
    }

    @Test func theBeginningMustBeOfOneSlotOnly() throws {
        func slot(_ id: String) throws -> UnlockSlot {
            let json = #"{"id": "\#(id)", "kind": 3, "label": "", "created": 0, "opensAllClasses": true}"#
            return try JSONDecoder().decode(UnlockSlot.self, from: Data(json.utf8))
        }
        let all = [try slot("abcd1"), try slot("abcd2"), try slot("ffff")]
        #expect(try SlotsCommand.slot("ABCD2", of: all).id == "abcd2")
        let failure = #expect(throws: Failure.self) { try SlotsCommand.slot("abcd", of: all) }
        #expect(failure?.status == .conflict)
        #expect(failure?.message.hasPrefix("2 slots have IDs that begin with abcd") == true)
        #expect(throws: LockboxError.slotNotFound(slot: "0000")) { try SlotsCommand.slot("0000", of: all) }
    }

    /// The library's would be about Swift calls, or about what only a library cannot know.
    @Test(arguments: [
        (
            LockboxError.rolledBack(record: "https://a:2379", reason: "r"),
            "Check the cluster for a restored snapshot."
        ),
        (.rolledBack(record: "etcd:/s/k/keybag", reason: "r"), "run `lockbox accept-restored`"),
        (.rolledBack(record: "/s/items/a/b", reason: "r"), "or remove the item"),
        (
            .decodingFailed(key: "k", type: "String", underlying: CancellationError()),
            "Use --json to print it"
        ),
        (.wrongPasscode, "The passcode is wrong. Check it and try again, or use a recovery code"),
        (.missingKeyPrefix, "Use --prefix."),
        (.notEnoughMemory(bytes: 7), "run `lockbox passcode change --strength interactive`"),
        (.typeMismatch(key: "k", stored: .lockbox2, type: "String"), "Use `lockbox get`"),
        (.deviceKeyMismatch(source: "/k"), "name it with --device-key-file"),
        (.unsupportedVersion(record: "/s/keybag", version: 9), "Update lockbox."),
        (.conflict(record: "/s/keybag"), "Run the command again."),
        (.notSupported(operation: "x"), "Not supported: x. Nothing was changed."),
        (.invalidPasscode(reason: "it is empty"), "The passcode cannot be used: it is empty."),
        (.invalidDeviceKey(source: "/k", reason: "r"), "The device key (/k) cannot be used: r."),
        (.requirementNotMet(record: "/s/keybag", reason: "r"), "leave out the option"),
    ])
    func messagesAreAboutTheCommand(_ error: LockboxError, _ text: String) {
        let message = Failure(error).message
        #expect(message.contains(text) && message.hasSuffix("."), "\(message)")
    }
}
