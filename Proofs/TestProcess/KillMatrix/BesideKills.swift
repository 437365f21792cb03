import Foundation

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// For `Proofs/KillMatrix/run --beside`: a process that uses the store while another's operation is killed.
///
///     kill beside OPERATION FOLDER NUMBER [rotate]     works until standard input ends, and then looks at its items
///     kill spoil-beside FOLDER                         for the control: removes an item of each such process
///
/// Its items are of a class that needs no passcode, and that no backup takes.
func workBeside(_ operation: KillableOperation, _ folder: Folder, number: String, _ isRotating: Bool) throws {
    let worker = Worker(
        backend: folder.backend(),
        prefix: operation.isOfWholePrefix ? besidePrefix : prefixes[0],
        number: number
    )
    if isRotating, let passcode = try folder.passcode { try worker.backend.unlock(.value(passcode)) }
    let calls = try repeatUntilEndOfInput { call in
        try worker.work(call)
        // Seldom: each rotation is long, and the others are to get on.
        if isRotating, call.isMultiple(of: 20) { try worker.backend.rotateKeys() }
    }
    // Who was killed must not be in the way of anything any more.
    for call in 0..<Worker.keys * 5 { try worker.work(call) }
    if isRotating { try worker.backend.rotateKeys() }
    try worker.requireAll(folder.backend())
    print(calls)
}

/// Says "ready" after the first time.
///
/// - Parameter body: Gets the number of its call, from 0.
private func repeatUntilEndOfInput(_ body: (_ call: Int) throws -> Void) throws -> String {
    let clock = ContinuousClock()
    var count = 0
    var longest = Duration.zero
    var input = pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0)
    while poll(&input, 1, 0) == 0 {
        longest = max(longest, try clock.measure { try body(count) })
        count += 1
        if count == 1 {
            print("ready")
            fflush(nil)
        }
    }
    return "\(count) calls, the longest \(longest.formatted(.units(allowed: [.milliseconds])))"
}

func spoilBeside(_ folder: Folder) throws {
    for prefix in prefixes + [besidePrefix] {
        for key in try folder.backend().attributes(prefix: prefix, now: Date()).keys where isBeside(key) {
            try folder.backend().remove(key)
        }
    }
}

private let besidePrefix = "com.example.beside"

func isBeside(_ key: ItemKey) -> Bool { key.key.hasPrefix("beside ") }

extension Folder {
    /// The passcode of a store that keeps one through the operation.
    fileprivate var passcode: String? {
        get throws { try backend().lockState == .unprotected ? nil : "old" }
    }
}

/// Knows what was acknowledged to it. Nobody else writes its keys.
private final class Worker {
    static let keys = 4

    let backend: EncryptedFileBackend
    private let prefix: String
    private let number: String
    private var acknowledged: [String: String] = [:]

    init(backend: EncryptedFileBackend, prefix: String, number: String) {
        self.backend = backend
        self.prefix = prefix
        self.number = number
    }

    func work(_ call: Int) throws {
        let key = "beside \(number).\(call % Self.keys)"
        switch Int.random(in: 0..<8) {
        case 0:
            try backend.remove(ItemKey(prefix: prefix, key: key))
            acknowledged[key] = nil
        case 1: try requireListed(backend)
        case 2...4: try requireValue(key, backend)
        default:
            let text = "\(key), call \(call) \(UInt64.random(in: .min ... .max))"
            try backend.write(fixture(key, prefix, .alwaysThisDeviceOnly, text: text), policy: .replace)
            acknowledged[key] = text
        }
    }

    func requireAll(_ backend: EncryptedFileBackend) throws {
        for index in 0..<Self.keys { try requireValue("beside \(number).\(index)", backend) }
        try requireListed(backend)
    }

    private func requireValue(_ key: String, _ backend: EncryptedFileBackend) throws {
        let value = try backend.value(for: ItemKey(prefix: prefix, key: key), now: Date())
        try require(
            value?.data == acknowledged[key].map { Data($0.utf8) },
            "\(key) is not as it was last written"
        )
    }

    private func requireListed(_ backend: EncryptedFileBackend) throws {
        let listed = try backend.attributes(prefix: prefix, now: Date()).keys.map(\.key)
        let own = Set(listed.filter { $0.hasPrefix("beside \(number).") })
        let expected = Set(acknowledged.keys)
        try require(own == expected, "\(own.sorted()) are listed of \(expected.sorted())")
    }
}
