@testable import LockboxKeychainTesting
import Configuration
import ConfigurationTesting
import Foundation
@testable import LockboxConfiguration
import LockboxKeychain
import LockboxTesting
import Logging
import ServiceLifecycle
import Testing

import Lockbox

@Suite struct ConfigProviderTests {
    private let secret = "hunter2"

    private func memory() throws -> Lockbox { try Lockbox(keyPrefix: "config", backend: InMemoryBackend()) }

    private func key(_ name: String) -> AbsoluteConfigKey {
        AbsoluteConfigKey(name.split(separator: ".").map(String.init))
    }

    /// Runs `body` with a store in a new folder.
    private func withStore(_ body: (String) async throws -> Void) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "lockbox-config-\(UUID())").path()
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try await body(folder)
    }

    private func lockbox(_ folder: String) throws -> Lockbox {
        try Lockbox(keyPrefix: "config", backend: EncryptedFileBackend(directory: folder))
    }

    private func fill(_ lockbox: Lockbox) throws {
        let (magic, magic2) = (Data("magic".utf8), Data("magic2".utf8))
        try lockbox.archiveObject("Hello", forKey: "string")
        try lockbox.archiveObject(Data("Other Hello".utf8), forKey: "other.string")
        try lockbox.archiveObject(42, forKey: "int")
        try lockbox.archiveObject("24", forKey: "other.int")
        try lockbox.archiveObject(3.14, forKey: "double")
        try lockbox.archiveObject("2.72", forKey: "other.double")
        try lockbox.archiveObject(true, forKey: "bool")
        try lockbox.archiveObject(Data("false".utf8), forKey: "other.bool")
        try lockbox.archiveObject(magic, forKey: "bytes")
        try lockbox.archiveObject("magic2", forKey: "other.bytes")
        try lockbox.archiveObject(["Hello", "World"], forKey: "stringy.array")
        try lockbox.archiveObject(["Hello", "Swift"], forKey: "other.stringy.array")
        try lockbox.archiveObject([42, 24], forKey: "inty.array")
        try lockbox.archiveObject([16, 32], forKey: "other.inty.array")
        try lockbox.archiveObject([3.14, 2.72], forKey: "doubly.array")
        try lockbox.archiveObject([0.9, 1.8], forKey: "other.doubly.array")
        try lockbox.archiveObject([true, false], forKey: "booly.array")
        try lockbox.archiveObject([false, true, true], forKey: "other.booly.array")
        try lockbox.archiveObject([magic, magic2], forKey: "byteChunky.array")
        try lockbox.archiveObject([magic, magic2, magic], forKey: "other.byteChunky.array")
    }

    @Test func itPassesTheCompatibilityTest() async throws {
        let lockbox = try memory()
        try fill(lockbox)
        try await ProviderCompatTest(provider: LockboxConfigProvider(lockbox)).runTest()
        try await withStore { folder in
            let lockbox = try self.lockbox(folder)
            try fill(lockbox)
            try await ProviderCompatTest(provider: LockboxConfigProvider(lockbox)).runTest()
        }
    }

    /// Neither the values, nor how the provider and its snapshots are printed.
    @Test func everyValueIsASecret() async throws {
        let lockbox = try memory()
        try await lockbox.archiveObject(secret, forKey: "database.password")
        let provider = try await LockboxConfigProvider(lockbox)
        let key = key("database.password")
        let results = try [
            provider.value(forKey: key, type: .string), await provider.fetchValue(forKey: key, type: .string),
            provider.snapshot().value(forKey: key, type: .string),
        ]
        for result in results {
            #expect(result.value == ConfigValue(.string(secret), isSecret: true))
            #expect(result.encodedKey == "database.password")
        }
        for subject in [provider, provider.snapshot(), results] as [Any] {
            var dumped = ""
            if !(subject is [LookupResult]) { dump(subject, to: &dumped) }
            for text in [dumped, "\(subject)", String(reflecting: subject)] where !(subject is [LookupResult])
            {
                #expect(!text.contains(secret))
            }
        }
        #expect("\(provider)" == "LockboxConfigProvider(lockbox, config)")
        let error = #expect(throws: LockboxError.self) { try provider.value(forKey: key, type: .int) }
        #expect(error?.code == .decodingFailed || error?.code == .typeMismatch)
        #expect(error.map { "\($0)" }?.contains(secret) == false)
    }

    @Test func absentLockedAndDamagedAreToldApart() async throws {
        try await withStore { folder in
            let writer = EncryptedFileBackend(directory: folder)
            let writing = try Lockbox(keyPrefix: "config", backend: writer)
            _ = try await writer.async { try $0.setPasscode(.value("1234"), strength: .interactive) }
            try await writing.archiveObject("open", forKey: "open", accessibility: .always)
            let before = try files(folder)
            try await writing.archiveObject("damaged", forKey: "damaged", accessibility: .always)
            let damaged = try #require(try files(folder).subtracting(before).first)
            try await writing.archiveObject("locked", forKey: "locked", accessibility: .whenUnlocked)
            var bytes = try Data(contentsOf: URL(filePath: damaged))
            bytes[bytes.count / 2] ^= 1
            try bytes.write(to: URL(filePath: damaged))

            // Like a process that has just started: nothing is unlocked.
            let reader = EncryptedFileBackend(directory: folder)
            let provider = try await LockboxConfigProvider(Lockbox(keyPrefix: "config", backend: reader))
            let snapshot = provider.snapshot()
            func results(_ name: String) async -> [Result<LookupResult, any Error>] {
                let key = key(name)
                var results = [
                    Result { try provider.value(forKey: key, type: .string) },
                    Result { try snapshot.value(forKey: key, type: .string) },
                ]
                do {
                    results.append(.success(try await provider.fetchValue(forKey: key, type: .string)))
                } catch {
                    results.append(.failure(error))
                }
                return results
            }
            for result in await results("absent") { #expect(try result.get().value == nil) }
            for result in await results("open") {
                #expect(try result.get().value?.content == .string("open"))
            }
            for result in await results("locked") {
                #expect(throws: LockboxError.interactionNotAllowed(.whenUnlocked)) { try result.get() }
            }
            for result in await results("damaged") {
                let error = #expect(throws: LockboxError.self) { try result.get() }
                #expect([.authenticationFailed, .corrupt].contains(error?.code))
            }

            _ = try await reader.async { try $0.unlock(.value("1234")) }
            #expect(throws: LockboxError.interactionNotAllowed(.whenUnlocked)) {
                try provider.value(forKey: key("locked"), type: .string)
            }
            try await provider.reload()
            #expect(
                try provider.value(forKey: key("locked"), type: .string).value?.content == .string("locked")
            )
        }
    }

    /// A server that starts before its store is unlocked, or goes on after it was locked again.
    @Test(.timeLimit(.minutes(1))) func whatIsLockedReplacesNothingAndAnUnlockIsNoticed() async throws {
        try await withStore { folder in
            let writer = EncryptedFileBackend(directory: folder)
            _ = try await writer.async { try $0.setPasscode(.value("1234"), strength: .interactive) }
            try await Lockbox(keyPrefix: "config", backend: writer).archiveObject("v", forKey: "k")
            let reader = EncryptedFileBackend(directory: folder)
            let provider = try await LockboxConfigProvider(Lockbox(keyPrefix: "config", backend: reader))
            let running = Task { try await provider.run() }
            defer { running.cancel() }
            let key = key("k")
            expectError(.interactionNotAllowed) { try provider.value(forKey: key, type: .string) }
            _ = try await reader.async { try $0.unlock(.value("1234")) }
            while (try? provider.value(forKey: key, type: .string).value?.content) != .string("v") {
                try await Task.sleep(for: .milliseconds(10))
            }
            try await reader.async { try $0.lock() }
            await #expect(throws: LockboxError.self) {
                try await provider.fetchValue(forKey: key, type: .string)
            }
            try await provider.reload()
            #expect(try provider.value(forKey: key, type: .string).value?.content == .string("v"))

            // A value written meanwhile is read after the unlock, also by a watch beside run().
            let watching = Task {
                try await provider.watchValue(forKey: key, type: .string) { updates in
                    for await update in updates where try update.get().value?.content == .string("w") {
                        return true
                    }
                    return false
                }
            }
            defer { watching.cancel() }
            try await Lockbox(keyPrefix: "config", backend: writer).archiveObject("w", forKey: "k")
            try await Task.sleep(for: .milliseconds(1500))
            #expect(try provider.value(forKey: key, type: .string).value?.content == .string("v"))
            _ = try await reader.async { try $0.unlock(.value("1234")) }
            #expect(try await watching.value)
            #expect(try provider.value(forKey: key, type: .string).value?.content == .string("w"))
        }
    }

    /// Of two reads at a time, the one that began first may end last.
    @Test func anEarlierReadReplacesNothing() throws {
        let damaged = Reading.failure(LockboxError.corrupt(record: "k", reason: "test"))
        let locked = Reading.failure(LockboxError.interactionNotAllowed(.whenUnlocked))
        var contents = Contents()
        let (first, second, third) = (contents.begin(), contents.begin(), contents.begin())
        contents.store(nil, "k", from: second)
        contents.store(damaged, "k", from: first)
        #expect(contents.items.isEmpty)
        contents.store(locked, "k", from: third)
        contents.store(damaged, "k", from: second)
        #expect(contents.postponed == ["k"] && contents.recoveries == 0)
        contents.store(nil, "k", from: contents.begin())
        #expect(contents.postponed.isEmpty && contents.recoveries == 1)
    }

    @Test(.timeLimit(.minutes(1))) func aServiceGroupEndsIt() async throws {
        let provider = try await LockboxConfigProvider(memory())
        let group = ServiceGroup(
            configuration: .init(
                services: [.init(service: provider, successTerminationBehavior: .gracefullyShutdownGroup)],
                logger: Logger(label: "test")
            )
        )
        let running = Task { try await group.run() }
        try await Task.sleep(for: .milliseconds(100))
        await group.triggerGracefulShutdown()
        try await running.value
    }

    private func files(_ folder: String) throws -> Set<String> {
        Set(try FileManager.default.subpathsOfDirectory(atPath: folder).map { "\(folder)/\($0)" })
    }

    /// Where they do not fit the type, values throw; text is read as a number only if all of it is one.
    @Test func whatDoesNotFitTheTypeThrows() async throws {
        let lockbox = try memory()
        try await lockbox.archiveObject("8080 ", forKey: "text")
        try await lockbox.archiveObject(Data([0xff, 0xfe]), forKey: "bytes")
        try await lockbox.archiveObject(1.5, forKey: "double")
        try await lockbox.archiveObject(["a"], forKey: "array")
        let provider = try await LockboxConfigProvider(lockbox)
        let refused: [(String, ConfigType)] = [
            ("text", .int), ("text", .bool), ("text", .stringArray), ("bytes", .string), ("bytes", .int),
            ("bytes", .byteChunkArray), ("double", .int), ("double", .bool), ("double", .bytes),
            ("array", .string), ("array", .intArray), ("array", .bytes),
        ]
        for (name, type) in refused {
            let error = #expect(throws: LockboxError.self, "\(name) as \(type)") {
                try provider.value(forKey: key(name), type: type)
            }
            #expect([.typeMismatch, .decodingFailed].contains(error?.code), "\(name) as \(type)")
        }
        let empty = #expect(throws: LockboxError.self) {
            try provider.value(forKey: AbsoluteConfigKey([]), type: .string)
        }
        #expect(empty?.code == .invalidKey)
    }

    /// From its expiry on an item is absent, also in memory. A snapshot stays as it was.
    @Test func anExpiredItemIsAbsent() async throws {
        let now = Clock()
        let lockbox = try Lockbox(keyPrefix: "config", backend: InMemoryBackend(), now: { now.date })
        try await lockbox.archiveObject("t0ken", forKey: "token", options: WriteOptions(expires: .after(60)))
        let provider = try await LockboxConfigProvider(lockbox)
        let snapshot = provider.snapshot()
        #expect(try provider.value(forKey: key("token"), type: .string).value != nil)
        now.advance(by: 60)
        #expect(try provider.value(forKey: key("token"), type: .string).value == nil)
        #expect(try await provider.fetchValue(forKey: key("token"), type: .string).value == nil)
        #expect(try snapshot.value(forKey: key("token"), type: .string).value != nil)
        #expect(try provider.snapshot().value(forKey: key("token"), type: .string).value == nil)
    }

    @Test func aFailureToListIsThrownAndLeavesWhatWasRead() async throws {
        let backend = FailingBackend()
        let lockbox = try Lockbox(keyPrefix: "config", backend: backend)
        try await lockbox.archiveObject("v", forKey: "k")
        let provider = try await LockboxConfigProvider(lockbox)
        let failure = LockboxError.notReachable(endpoint: "e", reason: "r")
        backend.fail(with: failure)
        await #expect(throws: failure) { try await provider.reload() }
        #expect(try provider.value(forKey: key("k"), type: .string).value != nil)
        await #expect(throws: failure) { try await provider.fetchValue(forKey: key("k"), type: .string) }
        await #expect(throws: failure) { _ = try await LockboxConfigProvider(lockbox) }
        backend.succeed()
        #expect(try await provider.fetchValue(forKey: key("k"), type: .string).value != nil)
    }

    /// The present value first, then each change, also by another process, and errors as elements.
    @Test(.timeLimit(.minutes(1))) func aWatchSeesChanges() async throws {
        try await withStore { folder in
            let lockbox = try self.lockbox(folder)
            try await lockbox.archiveObject("first", forKey: "k")
            let provider = try await LockboxConfigProvider(lockbox)
            let other = try self.lockbox(folder)
            try await provider.watchValue(forKey: key("k"), type: .string) { updates in
                var steps = 0
                for await update in updates {
                    steps += 1
                    switch steps {
                    case 1:
                        #expect(try update.get().value?.content == .string("first"))
                        try await other.archiveObject("v", forKey: "another")
                        try await other.archiveObject("second", forKey: "k")
                    case 2:
                        #expect(try update.get().value == ConfigValue(.string("second"), isSecret: true))
                        try await other.archiveObject([1], forKey: "k")
                    case 3:
                        expectError(.decodingFailed) { try update.get() }
                        try await other.removeObject(forKey: "k")
                    default:
                        #expect(try update.get().value == nil)
                        return
                    }
                }
                Issue.record("the watch ended")
            }
            #expect(try provider.value(forKey: key("k"), type: .string).value == nil)
        }
    }

    @Test(.timeLimit(.minutes(1))) func aWatchOfSnapshotsSeesChanges() async throws {
        let lockbox = try memory()
        try await lockbox.archiveObject("first", forKey: "k")
        let provider = try await LockboxConfigProvider(lockbox)
        try await provider.watchSnapshot { updates in
            var first: (any ConfigSnapshot)?
            for await snapshot in updates {
                let content = try snapshot.value(forKey: key("k"), type: .string).value?.content
                if content == .string("second") { break }
                #expect(content == .string("first"))
                first = snapshot
                try await lockbox.archiveObject("second", forKey: "k")
            }
            #expect(try first?.value(forKey: key("k"), type: .string).value?.content == .string("first"))
        }
    }

    @Test(.timeLimit(.minutes(1))) func aWatchEndsWhenTheTaskIsCanceled() async throws {
        let provider = try await LockboxConfigProvider(memory())
        let task = Task {
            try await provider.watchValue(forKey: key("k"), type: .string) { updates in
                var count = 0
                for await _ in updates {
                    count += 1
                    withUnsafeCurrentTask { $0?.cancel() }
                }
                return count
            }
        }
        #expect(try await task.value == 1)
    }

    /// A backend that does not report changes has one element: the present value.
    @Test(.timeLimit(.minutes(1))) func aWatchWithoutChangesHasThePresentValue() async throws {
        let lockbox = try Lockbox(keyPrefix: "config", backend: KeychainBackend(KeychainSimulator()))
        try await lockbox.archiveObject("v", forKey: "k")
        let provider = try await LockboxConfigProvider(lockbox)
        let content = try await provider.watchValue(forKey: key("k"), type: .string) { updates in
            for await update in updates { return try update.get().value?.content }
            return nil
        }
        #expect(content == .string("v"))
        await #expect(throws: LockboxError.notSupported(operation: "observing changes")) {
            try await provider.run()
        }
    }

    @Test(.timeLimit(.minutes(1))) func runKeepsMemoryUpToDate() async throws {
        let lockbox = try memory()
        let provider = try await LockboxConfigProvider(lockbox)
        let task = Task { try await provider.run() }
        try await lockbox.archiveObject("v", forKey: "k")
        while try provider.value(forKey: key("k"), type: .string).value == nil {
            try await Task.sleep(for: .milliseconds(5))
        }
        task.cancel()
        try await task.value
    }

    /// The environment is asked first, and the lockbox for what is not there.
    @Test func itIsALayerOfAReader() async throws {
        let lockbox = try memory()
        try await lockbox.archiveObject(secret, forKey: "database.password")
        try await lockbox.archiveObject("store.example.com", forKey: "database.host")
        try await lockbox.archiveObject([1], forKey: "database.user")
        let config = ConfigReader(providers: [
            EnvironmentVariablesProvider(environmentVariables: ["DATABASE_HOST": "localhost"]),
            try await LockboxConfigProvider(lockbox),
        ])
        let database = config.scoped(to: "database")
        #expect(database.string(forKey: "host") == "localhost")
        #expect(try database.requiredString(forKey: "password") == secret)
        #expect(database.string(forKey: "absent") == nil)
        expectError(.decodingFailed) { try database.requiredString(forKey: "user") }
    }
}

/// A time that passes when the test says so.
private final class Clock: @unchecked Sendable {
    private let lock = NSLock()
    private var time = Date(timeIntervalSince1970: 1_800_000_000)

    var date: Date { lock.withLock { time } }

    func advance(by seconds: TimeInterval) { lock.withLock { time += seconds } }
}
