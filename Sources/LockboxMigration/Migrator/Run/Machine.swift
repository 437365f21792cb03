import LockboxCore
import LockboxFiles
import LockboxPlatform
import LockboxSodium

/// This machine, among those that share a storage.
enum Machine {
    /// Returns what the system calls this machine. Tests put another one in its place.
    @TaskLocal package static var identify: @Sendable () throws -> String = { try machineIdentifier() }

    /// 64 hexadecimal digits, the same as long as the system is not installed anew.
    ///
    /// A hash, because the identifier itself should not leave the machine.
    static func hash() throws -> String {
        Sodium.hash(of: Array("lockbox.machine\0\(try identify())".utf8)).hexadecimal
    }

    /// Reads an identifier of 32 hexadecimal digits from a file that contains nothing else, machine-id(5).
    static func identifier(inFile path: String, _ calls: SystemCalls = SystemCalls()) throws -> String {
        let file = CInt(try check(calls.open(path, at: SystemCalls.currentDirectory, O_RDONLY), "open", path))
        defer { calls.close(file) }
        var bytes = [UInt8](repeating: 0, count: 64)
        let count = try bytes.withUnsafeMutableBytes { try calls.readAll(file, into: $0, path: path) }
        let text = String(decoding: bytes[..<count], as: UTF8.self)
        let digits = text.hasSuffix("\n") ? text.dropLast() : text[...]
        guard digits.utf8.count == 32, digits.allSatisfy(\.isHexDigit) else {
            let reason = "it does not identify this machine; systemd-machine-id-setup makes an identifier"
            throw LockboxError.corrupt(record: path, reason: reason)
        }
        return String(digits)
    }
}
