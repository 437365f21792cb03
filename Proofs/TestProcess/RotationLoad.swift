import Foundation

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// For Proofs/Rotation/run: a rotation beside processes that write and read all the time, until their standard input
/// ends.
///
///     load prepare DIRECTORY COUNT
///     load rotate DIRECTORY
///     load write DIRECTORY COUNT WRITER WRITERS    writes to every item whose number is WRITER modulo WRITERS
///     load read DIRECTORY COUNT
func load(_ arguments: [String]) throws {
    let numbers = arguments.dropFirst(2).compactMap { Int($0) }
    switch (arguments.first, numbers.count) {
    case ("prepare", 1):
        let lockbox = try lockbox(arguments[1])
        for index in 0..<numbers[0] { try lockbox.archiveObject(value(index, 0), forKey: "\(index)") }
    case ("rotate", 0): try rotate(arguments[1])
    case ("write", 3):
        try write(arguments[1], Array(stride(from: numbers[1], to: numbers[0], by: numbers[2])))
    case ("read", 1): try read(arguments[1], count: numbers[0])
    default: exit(64)
    }
}

/// 256 bytes that say whose they are, and how often the item has been written.
private func value(_ index: Int, _ round: Int) -> Data {
    let text = "\(index) \(round) "
    return Data((text + String(repeating: "x", count: 256 - text.utf8.count)).utf8)
}

private func round(of value: Data?, _ index: Int) throws -> Int {
    guard let value else { throw Violation(description: "item \(index) is absent") }
    let fields = String(decoding: value, as: UTF8.self).split(separator: " ")
    guard fields.count == 3, Int(fields[0]) == index, let round = Int(fields[1]) else {
        throw Violation(description: "item \(index) has another's value")
    }
    return round
}

private func rotate(_ directory: String) throws {
    var calls = 0
    var last = StoreProgress(completed: 0, total: 0)
    let clock = ContinuousClock()
    let start = clock.now
    let report = try EncryptedFileBackend(directory: directory).rotateKeys {
        calls += 1
        last = $0
    }
    let time = clock.now - start
    try require(report.isComplete, "\(report.unreadableItems.count) items could not be read")
    let isCounted = calls > 0 && calls * ItemOperation.batch >= last.total && last.completed == last.total
    try require(isCounted, "the progress does not add up")
    print(
        "\(report.resealedCount) items resealed in \(time.formatted(.units(allowed: [.seconds], fractionalPart: .show(length: 1))))"
    )
}

private func write(_ directory: String, _ indices: [Int]) throws {
    let writer = try lockbox(directory)
    var rounds: [Int: Int] = [:]
    let report = try repeatUntilEndOfInput { _ in
        let index = indices.randomElement()!
        let next = rounds[index, default: 0] + 1
        try writer.archiveObject(value(index, next), forKey: "\(index)")
        rounds[index] = next
    }
    let reopened = try lockbox(directory)
    for index in indices {
        let found = try round(of: reopened.unarchiveObject(forKey: "\(index)"), index)
        try require(found == rounds[index, default: 0], "item \(index) is not as it was last written")
    }
    print("\(report); each of \(indices.count) items is as it was last written")
}

private func read(_ directory: String, count: Int) throws {
    let reader = try lockbox(directory)
    var rounds: [Int: Int] = [:]
    var (reads, listings, incomplete) = (0, 0, 0)
    let report = try repeatUntilEndOfInput { _ in
        if reads / 1000 > listings {
            listings += 1
            if try reader.allKeys().count != count { incomplete += 1 }
            return
        }
        reads += 1
        let index = Int.random(in: 0..<count)
        let found = try round(of: reader.unarchiveObject(forKey: "\(index)"), index)
        try require(found >= rounds[index, default: 0], "item \(index) has become older")
        rounds[index] = found
    }
    print("\(report); no read failed or found nothing; \(incomplete) of \(listings) listings incomplete")
    if incomplete > 0 { exit(2) }
}

/// Says "ready" after the first time.
///
/// - Parameter body: Gets the number of its call, from 0.
func repeatUntilEndOfInput(_ body: (_ call: Int) throws -> Void) throws -> String {
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
