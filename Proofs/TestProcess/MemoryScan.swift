import Foundation

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// Looks for secrets in this process's own memory, before and after a lock.
///
/// The folder has `passcode`, and `needles`: what to look for, 32 bytes each, every bit inverted, so that this process has
/// them nowhere else. Status 0: all found while unlocked, none after the lock, nor any piece of the passcode or of the key
/// that Argon2id makes of it.
func scanMemory(directory: String, folder: String) throws -> Int32 {
    let needles = try Data(contentsOf: URL(fileURLWithPath: "\(folder)/needles"))
    let keys = stride(from: 0, to: needles.count, by: 32).map { Array(needles[$0..<$0 + 32]) }
    let passcode = Array(try Data(contentsOf: URL(fileURLWithPath: "\(folder)/inverted-passcode")))
    let derived = Array(try Data(contentsOf: URL(fileURLWithPath: "\(folder)/inverted-derived-key")))
    let scanner = try Scanner()

    let backend = EncryptedFileBackend(directory: directory)
    try backend.unlock(.file("\(folder)/passcode"))
    for key in keys where try !scanner.finds(key) { return 11 }

    // The control for the passcode: a copy that is there is found.
    var copy = passcode.map { ~$0 }
    let isFound = try scanner.finds(passcode)
    for index in copy.indices { copy[index] = 0 }
    guard isFound, copy.allSatisfy({ $0 == 0 }) else { return 12 }
    if try scanner.finds(anyPieceOf: passcode) { return 13 }
    if try scanner.finds(anyPieceOf: derived) { return 17 }

    try backend.lock()
    for key in keys where try scanner.finds(key) { return 14 }
    if try scanner.finds(anyPieceOf: passcode) { return 15 }
    return try backend.lockState == .locked ? 0 : 16
}

private struct Scanner {
    private let memory: FileHandle
    private let buffer: UnsafeMutableRawPointer
    private let size = 1 << 20

    init() throws {
        memory = try FileHandle(forReadingFrom: URL(fileURLWithPath: "/proc/self/mem"))
        buffer = .allocate(byteCount: size, alignment: 4096)
    }

    /// Like ``finds(_:)``, for some pieces of it: of what was freed, some memory may have been used again.
    func finds(anyPieceOf inverted: [UInt8]) throws -> Bool {
        let length = min(16, inverted.count)
        let last = inverted.count - length
        let starts = Set([0, last / 4, last / 2, last * 3 / 4, last])
        return try starts.contains { try finds(Array(inverted[$0..<$0 + length])) }
    }

    /// Whether the inverse of `inverted` stands anywhere but in this scanner's buffer.
    func finds(_ inverted: [UInt8]) throws -> Bool {
        defer { memset(buffer, 0, size) }
        let own =
            UInt(bitPattern: buffer)..<UInt(bitPattern: buffer) + UInt(size)
        // Read to its end, and not only as far as its size, which is given as zero.
        let maps =
            try FileHandle(forReadingFrom: URL(fileURLWithPath: "/proc/self/maps")).readToEnd() ?? Data()
        for line in String(decoding: maps, as: UTF8.self).split(separator: "\n") {
            let fields = line.split(separator: " ")
            let bounds = fields[0].split(separator: "-").map { UInt($0, radix: 16)! }
            guard fields[1].hasPrefix("r"), line.contains("[v") == false else { continue }
            for start in stride(from: bounds[0], to: bounds[1], by: size - inverted.count) {
                let end = min(bounds[1], start + UInt(size))
                for part in [
                    start..<min(end, max(start, own.lowerBound)), max(start, min(end, own.upperBound))..<end,
                ]
                where !part.isEmpty && !own.overlaps(part) && contains(inverted, in: part) {
                    return true
                }
            }
        }
        return false
    }

    private func contains(_ inverted: [UInt8], in range: Range<UInt>) -> Bool {
        let count = pread(
            memory.fileDescriptor,
            buffer,
            range.count,
            Int(bitPattern: range.lowerBound)
        )
        guard count >= inverted.count else { return false }
        // By a byte that is rarer than those of which most memory is made.
        let anchor = inverted.firstIndex { $0 != 0 && $0 != 0xFF } ?? 0
        var next = buffer + anchor
        let end = buffer + (count - inverted.count + anchor + 1)
        while next < end, let found = memchr(next, Int32(~inverted[anchor]), end - next) {
            let start = UnsafeRawPointer(found) - anchor
            // Millions of times, so without a closure, which takes long in a debug build.
            var length = 0
            while length < inverted.count,
                start.load(fromByteOffset: length, as: UInt8.self) == ~inverted[length]
            { length += 1 }
            if length == inverted.count { return true }
            next = found + 1
        }
        return false
    }
}
