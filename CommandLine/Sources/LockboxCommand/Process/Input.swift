import ArgumentParser
import CProcess
import Lockbox
@_spi(Extensions) import LockboxStore

/// Standard input, and the names of files.
enum Input {
    /// Reads to the end of file, but at most one byte more than the limit, which is then refused.
    static func all(
        from descriptor: CInt = STDIN_FILENO,
        _ name: String = "Standard input",
        limit: Int = ArchivedValue.maximumSize
    ) throws -> Data {
        var data = Data()
        var buffer = [UInt8](repeating: 0, count: 64 * 1024)
        while data.count <= limit {
            let count = read(descriptor, &buffer, buffer.count)
            if count == 0 { return data }
            if count < 0 {
                if canRepeat(descriptor, waitingFor: CInt(POLLIN)) { continue }
                throw Failure.system("\(name) cannot be read")
            }
            data.append(contentsOf: buffer[..<count])
        }
        throw Failure(.usage, "\(name) is longer than the limit of \(limit) bytes.")
    }

    /// - Parameter check: Looks at the open file before it is read.
    static func all(ofFile path: String, _ check: (CInt) throws -> Void = { _ in }) throws -> Data {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { throw Failure.system("\(path.onOneLine) cannot be read") }
        defer { close(file) }
        try check(file)
        return try all(from: file, path.onOneLine)
    }

    /// The lines, neither empty nor comments after `#`, of a file that only this user or root can change.
    static func lines(ofOwnFile path: String) throws -> [String] {
        let data = try all(ofFile: path) { file in
            var status = stat()
            guard fstat(file, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return }
            if status.st_mode & 0o022 != 0 || ![geteuid(), 0].contains(status.st_uid) {
                throw LockboxError.unsafePermissions(
                    path: .other(path),
                    reason: "others can change it; chown it to you, and chmod go-w it"
                )
            }
        }
        return String(decoding: data, as: UTF8.self).split(whereSeparator: \.isNewline)
            .map(\.trimmingWhitespace).filter { !$0.isEmpty && !$0.hasPrefix("#") }
    }
}

/// The sources of passcodes and passphrases.
enum SecretInput {
    /// Returns the store's passcode from the options or the environment, or nil if the user has to type it.
    static func passcode(_ choice: StoreChoice) -> PasscodeSource? {
        if let path = choice.passcodeFile { return .file(path) }
        if let descriptor = choice.passcodeFd { return .fileDescriptor(descriptor) }
        return isStandardThere ? .standard : nil
    }

    static let missing =
        "The store is locked. Run `lockbox unlock` at a terminal, or use --passcode-file."

    /// A new secret, which the user types twice.
    static func new(_ name: String, file: String?, option: String) throws -> PasscodeSource {
        if let file { return .file(file) }
        let otherwise = "A new \(name) is needed, but there is no terminal to read it from: use \(option)."
        let typed = try Terminal.secret("New \(name): ", otherwise: otherwise)
        guard try typed.isEqual(to: Terminal.secret("Repeat it: ", otherwise: otherwise)) else {
            throw Failure(.locked, "The two entries differ. Nothing was changed.")
        }
        if typed.count < 8 {
            Output.note(
                "lockbox: The \(name) is short: all of \(typed.count) bytes are soon tried on a copy of what it protects. Use eight or more."
            )
        }
        return typed.source
    }

    /// Runs `body`, and says in errors which secret is wrong. The library calls each a passcode.
    static func naming<Result>(_ name: String, _ body: () throws -> Result) throws -> Result {
        do { return try body() } catch LockboxError.wrongPasscode {
            throw WrongSecret(reason: "The \(name) is wrong.")
        } catch LockboxError.invalidPasscode(let reason) {
            throw WrongSecret(reason: "The \(name) cannot be used: \(reason).")
        } catch LockboxError.notEnoughMemory(let bytes) where name == "passphrase" {
            throw Failure(
                .inputOutput,
                "scrypt needs \(bytes) bytes of memory for the \(name), which are not available. Raise the memory limit."
            )
        }
    }

    /// Runs `body`, in which a key is that of a slot: ``LockboxError/advice`` is about the device key.
    static func namingKey<Result>(_ body: () throws -> Result) throws -> Result {
        do { return try body() } catch let error as LockboxError where error.code == .invalidDeviceKey {
            throw Failure(error.status, error.description)
        }
    }

    /// Whether any source of `PasscodeSource.standard` is available.
    private static var isStandardThere: Bool {
        if ["LOCKBOX_PASSCODE_FILE", "LOCKBOX_PASSCODE"].contains(where: Environment.isSet) { return true }
        // One that is not UTF-8 is there, and refused when it is read.
        guard let folder = try? Environment["CREDENTIALS_DIRECTORY"] else {
            return Environment.isSet("CREDENTIALS_DIRECTORY")
        }
        return access("\(folder)/lockbox-passcode", F_OK) == 0
    }
}

/// A secret that the user has typed without echo. It is kept in memory of its own, which is wiped when nothing uses it any more.
/// A String could not be wiped: its copies are unknown.
final class TypedSecret: @unchecked Sendable {
    // Unchecked: only the terminal appends to it, before it passes it on.

    /// More than a terminal passes on in one line.
    private static let capacity = 4096

    private let buffer: UnsafeMutableRawBufferPointer
    private(set) var count = 0

    init() {
        buffer = .allocate(byteCount: Self.capacity, alignment: 4096)
        // If the limit of locked memory is reached, it may be swapped out.
        mlock(buffer.baseAddress!, buffer.count)
    }

    deinit {
        wipe_memory(buffer.baseAddress!, buffer.count)
        munlock(buffer.baseAddress!, buffer.count)
        buffer.deallocate()
    }

    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(rebasing: buffer[..<count]) }

    /// Bytes beyond the capacity are dropped; so long a line is refused anyway.
    func append(_ byte: UInt8) {
        guard count < Self.capacity else { return }
        buffer[count] = byte
        count += 1
    }

    /// Whether it is UTF-8. Makes no String.
    var isText: Bool {
        !transcode(bytes.makeIterator(), from: UTF8.self, to: UTF32.self, stoppingOnError: true) { _ in }
    }

    /// Removes what a terminal puts around a paste, if a program has asked it to.
    func removePasteMarks() {
        for mark in [Array("\u{1B}[200~".utf8), Self.pasteEnd] {
            while let found = bytes.firstRange(of: mark) {
                for index in found.upperBound..<count { buffer[index - mark.count] = buffer[index] }
                count -= mark.count
            }
        }
    }

    static let pasteEnd = Array("\u{1B}[201~".utf8)

    /// Whether it has what arrow keys and others send. A tab may be meant.
    var hasControlCharacters: Bool { bytes.contains { $0 < 0x20 && $0 != 0x09 || $0 == 0x7F } }

    func isEqual(to other: TypedSecret) -> Bool { bytes.elementsEqual(other.bytes) }

    /// The secret for the library, which wipes the bytes that it gets.
    var source: PasscodeSource { .closure { [self] in Array(bytes) } }
}
