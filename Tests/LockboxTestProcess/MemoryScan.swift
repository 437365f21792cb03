import Foundation

@testable import Lockbox

/// Looks for secrets in this process's own memory, before and after a lock.
///
/// The folder has `passcode`, and `needles`: what to look for, 32 bytes each, every bit inverted, so that this process has
/// them nowhere else. Status 0: all found while unlocked, none after the lock, nor the passcode.
func scanMemory(directory: String, folder: String) throws -> Int32 {
    let needles = try Data(contentsOf: URL(fileURLWithPath: "\(folder)/needles"))
    let keys = stride(from: 0, to: needles.count, by: 32).map { Array(needles[$0..<$0 + 32]) }
    let passcode = Array(try Data(contentsOf: URL(fileURLWithPath: "\(folder)/inverted-passcode")))
    let scanner = try Scanner()

    let backend = EncryptedFileBackend(directory: directory)
    try backend.unlock(.file("\(folder)/passcode"))
    for key in keys where try !scanner.finds(key) { return 11 }

    // The control for the passcode: a copy that is there is found.
    var copy = passcode.map { ~$0 }
    let found = try scanner.finds(passcode)
    for index in copy.indices { copy[index] = 0 }
    guard found, copy.allSatisfy({ $0 == 0 }) else { return 12 }
    if try scanner.finds(passcode) { return 13 }

    try backend.lock()
    for key in keys where try scanner.finds(key) { return 14 }
    if try scanner.finds(passcode) { return 15 }
    return try backend.lockState == .locked ? 0 : 16
}

private struct Scanner {
    private let memory: FileHandle
    private let buffer: UnsafeMutableRawBufferPointer

    init() throws {
        memory = try FileHandle(forReadingFrom: URL(fileURLWithPath: "/proc/self/mem"))
        buffer = .allocate(byteCount: 1 << 20, alignment: 4096)
    }

    /// Whether the inverse of `inverted` stands anywhere but in this scanner's buffer.
    func finds(_ inverted: [UInt8]) throws -> Bool {
        defer { buffer.initializeMemory(as: UInt8.self, repeating: 0) }
        let own =
            UInt(bitPattern: buffer.baseAddress!)..<UInt(bitPattern: buffer.baseAddress!) + UInt(buffer.count)
        // Read to its end, and not only as far as its size, which is given as zero.
        let maps =
            try FileHandle(forReadingFrom: URL(fileURLWithPath: "/proc/self/maps")).readToEnd() ?? Data()
        for line in String(decoding: maps, as: UTF8.self).split(separator: "\n") {
            let fields = line.split(separator: " ")
            let bounds = fields[0].split(separator: "-").map { UInt($0, radix: 16)! }
            guard fields[1].hasPrefix("r"), line.contains("[v") == false else { continue }
            for start in stride(from: bounds[0], to: bounds[1], by: buffer.count - inverted.count) {
                let end = min(bounds[1], start + UInt(buffer.count))
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
            buffer.baseAddress,
            range.count,
            Int(bitPattern: range.lowerBound)
        )
        guard count >= inverted.count else { return false }
        for offset in 0...(count - inverted.count) where buffer[offset] == ~inverted[0] {
            if inverted.indices.allSatisfy({ buffer[offset + $0] == ~inverted[$0] }) { return true }
        }
        return false
    }
}
