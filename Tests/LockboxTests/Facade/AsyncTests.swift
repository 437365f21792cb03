import Foundation
import Testing

import Lockbox
@testable import LockboxCore
@testable import LockboxFiles
@testable import LockboxMigration
@testable import LockboxSealed

@Suite struct AsyncTests {
    // MARK: The list

    /// A public function or property, as the sources declare it.
    private struct Call: Hashable, CustomStringConvertible {
        let type: String
        let isStatic: Bool
        let name: String
        let labels: [String]

        var description: String {
            "\(isStatic ? "static " : "")\(type).\(name)(\(labels.map { "\($0):" }.joined()))"
        }
    }

    private static let types: Set<String> = [
        "Lockbox", "LockboxItem", "LockboxBackend", "LockableBackend", "SealedBackend",
    ]

    /// What has no async form, and why.
    private static let exceptions: [String: Set<String>] = [
        "they read the environment at most": [
            "static Lockbox.default()", "static Lockbox.configure(keyPrefix:backend:coder:now:)",
        ],
        "what a backend does for Lockbox, whose calls have async forms": [
            "LockboxBackend.forEachItem(prefix:now:unreadable:_:)", "LockboxBackend.value(for:now:)",
            "LockboxBackend.setAccessibility(_:for:now:)", "LockboxBackend.write(_:policy:)",
            "LockboxBackend.attributes(for:now:)", "LockboxBackend.removeAll(prefix:)",
            "LockboxBackend.apply(_:)", "SealedBackend.apply(_:)", "LockboxBackend.checkAccess(_:now:)",
            "LockboxBackend.copy(_:to:policy:now:)",
            "LockboxBackend.move(_:to:policy:now:)",
            "LockboxBackend.values(for:now:)",
            "LockboxBackend.write(_:to:policy:)",
            "LockboxBackend.removeExpired(prefix:now:)",
            "LockboxBackend.removeExpired(prefix:now:unreadable:)",
            "LockboxBackend.prefixes(unreadable:)", "SealedBackend.value(for:now:)",
            "SealedBackend.item(for:now:)", "SealedBackend.move(_:to:policy:now:)",
            "SealedBackend.attributes(for:now:)",
            "SealedBackend.attributes(prefix:now:)", "SealedBackend.forEachItem(prefix:now:unreadable:_:)",
            "SealedBackend.prefixes()", "SealedBackend.subscribe(prefix:_:)",
            "SealedBackend.write(_:to:policy:)", "SealedBackend.update(_:now:_:)",
            "SealedBackend.remove(_:)", "SealedBackend.removeAll(prefix:)",
            "SealedBackend.removeExpired(prefix:now:unreadable:)", "SealedBackend.prefixes(unreadable:)",
        ],
    ]

    @Test func everyCallThatCanThrowHasAnAsyncForm() throws {
        let calls = try SourceText.files(under: "Sources").values.flatMap(Self.calls)
        let asynchronous = Set(calls.filter(\.isAsync).map(\.call))
        let synchronous = Set(calls.filter { !$0.isAsync }.map(\.call))
        #expect(synchronous.count > 40)
        let alone = synchronous.subtracting(asynchronous).map(\.description).sorted()
        #expect(alone == Self.exceptions.values.joined().sorted())
        #expect(asynchronous.subtracting(synchronous).isEmpty, "they have another name, or other labels")
    }

    /// The public calls of our types that can throw.
    private static func calls(in text: String) -> [(call: Call, isAsync: Bool)] {
        let declaration =
            /^(?:public )?(?:final )?(?:extension|class|struct|enum|protocol) (?<type>\w+)|^    public (?<static>static )?(?<kind>func|var) `?(?<name>\w+)`?(?:<[^(]*>)?/
            .anchorsMatchLineEndings()
        var type = ""
        return text.matches(of: declaration).compactMap { match in
            if let name = match.type { type = String(name) }
            guard types.contains(type), let name = match.name else { return nil }
            let rest = text[match.range.upperBound...]
            let (labels, effects) = match.kind == "func" ? signature(rest) : ([], accessors(rest))
            guard effects.contains(/\bthrows\b/) else { return nil }
            let call = Call(type: type, isStatic: match.static != nil, name: String(name), labels: labels)
            return (call, effects.contains(/\basync\b/))
        }
    }

    /// Of text that begins with a parameter list.
    private static func signature(_ text: Substring) -> (labels: [String], effects: Substring) {
        var depth = 0
        var parameters = ""
        for index in text.indices {
            if "([{".contains(text[index]) { depth += 1 }
            if depth == 1 { parameters.append(text[index]) }
            guard ")]}".contains(text[index]) else { continue }
            depth -= 1
            if depth > 0 { continue }
            let labels = parameters.dropFirst().dropLast().split(separator: ",").compactMap {
                $0.firstMatch(of: /\w+/).map { String($0.0) }
            }
            return (labels, text[index...].prefix { $0 != "{" && $0 != "-" })
        }
        return ([], text.prefix(0))
    }

    /// Of text that begins with a property's type.
    private static func accessors(_ text: Substring) -> Substring {
        text.firstMatch(of: /^: [\w?\[\]]+ \{\s+get ([\w()\s]+)/)?.1 ?? text.prefix(0)
    }

    // MARK: Where they run

    /// Threads of the cooperative pool run tasks.
    private static func expectNoTask(_ what: Comment) { withUnsafeCurrentTask { #expect($0 == nil, what) } }

    @Test func theyDoNotRunInTheCooperativePool() async throws {
        withUnsafeCurrentTask { #expect($0 != nil, "the control") }
        let store = try TestStore()
        let path = Path.parent(of: store.directory) + "/backup"
        let calls = Protected(0)
        let backend = store.backend(
            SystemCalls { call in
                // Descriptors are closed with whatever held them last, also with the test's own backend.
                if call == .close { return nil }
                Self.expectNoTask("\(call)")
                calls.withLock { $0 += 1 }
                return nil
            }
        )
        @Sendable func show(_ progress: StoreProgress) {
            Self.expectNoTask("\(progress)")
            calls.withLock { $0 += 1 }
        }
        /// Each call comes to one of the two above.
        @discardableResult
        func run<Result>(_ call: () async throws -> Result) async throws -> Result {
            let before = calls.withLock { $0 }
            let result = try await call()
            #expect(calls.withLock { $0 } > before)
            return result
        }
        let lockbox = try Lockbox(keyPrefix: TestStore.prefix, backend: backend)
        try await run { try await lockbox.archiveObject("v", forKey: "k") }
        #expect(try await run { try await backend.lockState() } == .noPasscode)
        try await run { try await backend.setPasscode(.value("1"), strength: .interactive) }
        try await run { try await backend.changePasscode(to: .value("2"), strength: .interactive) }
        try await backend.lock(includingAfterFirstUnlock: true)
        #expect(try await run { try await backend.unlockScope() } == nil)
        #expect(try await run { try await backend.unlock(.value("2")) } == .process)
        #expect(try await run { try await backend.unlockScope() } == .process)
        #expect(try await run { try await backend.rotateKeys(progress: show) }.resealedCount == 1)
        #expect(try await run { try await backend.verify(progress: show) }.intactCount == 1)
        let exported = try await run {
            try await backend.exportBackup(
                to: path,
                passphrase: .value("p"),
                strength: .interactive,
                progress: show
            )
        }
        #expect(exported.exportedCount == 1)
        let imported = try await run {
            try await backend.importBackup(from: path, passphrase: .value("p"), progress: show)
        }
        #expect(imported.unchangedCount == 1)
        let other = InMemoryBackend()
        #expect(try await run { try await backend.copyItems(to: other, progress: show) }.isComplete)
        #expect(try await run { try await other.moveItems(to: backend, progress: show) }.isComplete)
        #expect(other.prefixes() == [])
        try await run { try await backend.removePasscode() }
        let migration = Migration(nil, from: .items(["old": Data("v".utf8)]), .string("old"))
        #expect(try await run { try await lockbox.migrate(migration, progress: show) }["old"] == .migrated)
        #expect(try await migration.source.keys(for: lockbox) == ["old"])
    }
}
