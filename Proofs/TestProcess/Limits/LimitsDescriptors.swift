import Foundation

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// `limits descriptors`: writes, reads and lists in so many prefixes, twice, where this process may have few descriptors.
/// The items are there before. A line for each operation with its failures and one of them; then how many descriptors the
/// store keeps.
func useWithDescriptors(_ directory: String, limit: Int, prefixes: Int) throws {
    let names = (0..<prefixes).map { "\(prefix).\($0)" }
    try prepare(directory, names)
    let before = try limitDescriptors(to: limit)
    let use = DescriptorUse(EncryptedFileBackend(directory: directory))
    for _ in 1...2 {
        for prefix in names {
            for operation in DescriptorUse.Operation.allCases { use.perform(operation, prefix) }
        }
    }
    try limitDescriptors(to: before)
    for operation in DescriptorUse.Operation.allCases {
        let failures = use.failures[operation] ?? []
        report(operation.rawValue, failures.count, failures.first ?? "-")
    }
    report("kept", try openDescriptors(below: directory))
    withExtendedLifetime(use) {}
}

/// `limits pressure`: how many descriptors must be free, where the process has used up all others, for each operation to
/// succeed. A line for each, in a backend that has opened nothing yet, and in one that has used 20 other prefixes.
func findFewestDescriptors(_ directory: String) throws {
    try prepare(directory, (0...20).map { "\(prefix).\($0)" })
    try limitDescriptors(to: 128)
    for isInUse in [false, true] {
        for operation in DescriptorUse.Operation.allCases {
            let results = try (0...16).map { free in
                try succeeds(operation, directory, isInUse: isInUse, free: free)
            }
            let fewest = results.lastIndex(of: false).map { $0 + 1 } ?? 0
            report(isInUse ? "in use" : "new", operation.rawValue, fewest)
        }
    }
}

/// An item in each prefix.
private func prepare(_ directory: String, _ prefixes: [String]) throws {
    let use = DescriptorUse(EncryptedFileBackend(directory: directory))
    for prefix in prefixes { use.perform(.write, prefix) }
    try require(use.failures.isEmpty, "the store cannot be made: \(use.failures)")
}

/// - Throws: if the answer is wrong: too few descriptors are an error, not an absent item.
private func succeeds(_ operation: DescriptorUse.Operation, _ directory: String, isInUse: Bool, free: Int)
    throws -> Bool
{
    let use = DescriptorUse(EncryptedFileBackend(directory: directory))
    if isInUse {
        for number in 1...20 { use.perform(.write, "\(prefix).\(number)") }
        try require(use.failures.isEmpty, "20 prefixes cannot be used")
    }
    let occupied = occupyDescriptors(but: free)
    use.perform(operation, "\(prefix).0")
    occupied.forEach { close($0) }
    let failures = use.failures[operation] ?? []
    let tooMany = String(cString: strerror(EMFILE))
    if let wrong = failures.first(where: { !$0.contains(tooMany) }) {
        throw Violation(description: "\(operation) with \(free) free descriptors: \(wrong)")
    }
    return failures.isEmpty
}

/// Operations on one item of a prefix, which look at their answers.
private final class DescriptorUse {
    enum Operation: String, CaseIterable { case write, read, list }

    private(set) var failures: [Operation: [String]] = [:]
    private let backend: EncryptedFileBackend
    private var written: [String: Data] = [:]
    private var count = 0

    init(_ backend: EncryptedFileBackend) { self.backend = backend }

    func perform(_ operation: Operation, _ prefix: String) {
        do {
            let lockbox = try Lockbox(keyPrefix: prefix, backend: backend)
            switch operation {
            case .write: try write(lockbox)
            case .read: try read(lockbox)
            case .list: try require(lockbox.allKeys() == ["key"], "the list is incomplete")
            }
        } catch {
            failures[operation, default: []].append("\(error)".replacing("\n", with: " "))
        }
    }

    private func write(_ lockbox: Lockbox) throws {
        count += 1
        let value = Data("\(count)".utf8)
        try lockbox.archiveObject(value, forKey: "key")
        written[lockbox.keyPrefix] = value
    }

    /// What another backend wrote may be any value.
    private func read(_ lockbox: Lockbox) throws {
        let found = try lockbox.unarchiveObject(Data.self, forKey: "key")
        let expected = written[lockbox.keyPrefix] ?? found
        try require(found != nil && found == expected, "the item is \(found == nil ? "absent" : "another")")
    }
}

/// Returns what the limit was before.
@discardableResult
private func limitDescriptors(to count: Int) throws -> Int {
    let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
    var limit = rlimit()
    try require(getrlimit(resource, &limit) == 0, "getrlimit: errno \(errno)")
    let before = Int(limit.rlim_cur)
    limit.rlim_cur = rlim_t(count)
    try require(setrlimit(resource, &limit) == 0, "setrlimit: errno \(errno)")
    return before
}

/// Opens what can be opened, and closes `free` of it again.
private func occupyDescriptors(but free: Int) -> [CInt] {
    var descriptors: [CInt] = []
    while true {
        let descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC)
        if descriptor < 0 { break }
        descriptors.append(descriptor)
    }
    descriptors.suffix(free).forEach { close($0) }
    return descriptors.dropLast(free)
}

private func openDescriptors(below directory: String) throws -> Int {
    try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count { name in
        let target = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(name)")
        return target?.hasPrefix(directory) ?? false
    }
}
