import LockboxIdentities
import Foundation
import Testing

import Lockbox

/// Ten thousand handshakes, and one renewal among them. Scripts/test-traits runs this by itself, as it measures times.
@Suite(.serialized) struct LoadTests {
    private let authority: Authority
    private let old: IdentityItem
    private let new: IdentityItem

    /// `LOCKBOX_HANDSHAKES` changes it.
    private let count =
        ProcessInfo.processInfo.environment["LOCKBOX_HANDSHAKES"].flatMap { Int($0) } ?? 10_000

    init() throws {
        authority = try Authority("Test")
        old = try authority.identity("old")
        new = try authority.identity("new")
    }

    @Test(arguments: Place.available) func aRenewalUnderLoadFailsNoHandshake(_ place: Place) async throws {
        let store = try TestStore(place, prefix: "com.example.server")
        try await store.store(old)
        let server = try store.start()
        let port = try #require(Int(try await server.wait(for: "listening on port ")))
        let load = Load(try Client(port: port, trusting: authority), old: old, new: new)
        let kept = try await Client(port: port, trusting: authority).connect()
        try await kept.request()

        async let handshakes = load.run(count)
        try await load.wait(until: count / 2)
        let begin = ContinuousClock.now
        try await store.store(new)
        let stored = ContinuousClock.now
        let result = Outcome(await handshakes, renewal: begin..<stored)
        #expect(try await kept.request() == old.chain[0])

        print(result.row("\(place)"))
        #expect(result.count == count)
        #expect(result.failures.isEmpty, "\(result.failures.prefix(5))")
        #expect(result.old > 0 && result.new > 0)
        #expect(result.isInOrder, "the old chain came after the new one")
        #expect(try #require(result.lag) < .seconds(2))
        #expect(!server.text.contains("still the last good identity"), "\(server.text)")
    }

    /// The control: what a restart instead of a reload costs. Failures are counted.
    @Test func aRestartUnderLoadFailsHandshakes() async throws {
        let store = try TestStore(.files, prefix: "com.example.server")
        try await store.store(old)
        let server = try store.start()
        let port = try #require(Int(try await server.wait(for: "listening on port ")))
        let load = Load(try Client(port: port, trusting: authority), old: old, new: new)
        let total = count / 5
        async let handshakes = load.run(total)
        try await load.wait(until: total / 2)
        let begin = ContinuousClock.now
        await server.endInBackground()
        try await store.store(new)
        let restarted = try store.start(port: port)
        try await restarted.wait(for: "listening on port ")
        let restart = ContinuousClock.now
        let result = Outcome(await handshakes, renewal: begin..<restart)
        print(result.row("control: restart"))
        #expect(!result.failures.isEmpty && result.new > 0)
    }
}
