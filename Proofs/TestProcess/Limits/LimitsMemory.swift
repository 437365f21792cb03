import Foundation

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// `limits measure`: one operation on a store of many items. Answers with the number of items it dealt with (of removeAll,
/// of those that are left), how long that took, and the most memory that this process has ever had, in KiB. "open" is the
/// process without the operation.
func measure(_ directory: String, _ prefix: String, operation: String, file: String?) throws {
    let backend = EncryptedFileBackend(directory: directory)
    _ = try Lockbox(keyPrefix: prefix, backend: backend).attributes(forKey: "0")
    let clock = ContinuousClock()
    let start = clock.now
    let count = try perform(operation, backend, prefix, file)
    report(count, seconds(clock.now - start), try peakMemory())
}

private func perform(_ operation: String, _ backend: EncryptedFileBackend, _ prefix: String, _ file: String?)
    throws -> Int
{
    switch operation {
    case "open": return 0
    case "list": return try backend.attributes(prefix: prefix, now: Date()).count
    case "forEachItem":
        var count = 0
        try backend.forEachItem(prefix: prefix, now: Date(), unreadable: { throw $0.error }) { _, _ in
            count += 1
        }
        return count
    case "verify":
        let report = try backend.verify()
        try require(report.findings.isEmpty, "verify: \(report.findings.count) findings")
        return report.intactCount
    case "rotateKeys":
        let report = try backend.rotateKeys()
        try require(report.isComplete, "rotateKeys: \(report.unreadableItems.count) unreadable")
        return report.resealedCount
    case "export":
        guard let file else { throw Violation(description: "no file to export to") }
        return try backend.exportBackup(to: file, for: .passphrase(.value("passphrase"), workFactor: 10))
            .exportedCount
    case "removeAll":
        try backend.removeAll(prefix: prefix)
        return try backend.attributes(prefix: prefix, now: nil).count
    default: throw Violation(description: "there is no operation \(operation)")
    }
}

func peakMemory() throws -> Int {
    let status = try String(contentsOfFile: "/proc/self/status", encoding: .utf8)
    let line = status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") }
    guard let number = line?.split(whereSeparator: \.isWhitespace).dropFirst().first.flatMap({ Int($0) })
    else {
        throw Violation(description: "the kernel tells no VmHWM")
    }
    return number
}
