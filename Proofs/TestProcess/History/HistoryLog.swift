import Foundation

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// The outcome of a call that is neither a result nor a ``LockboxError``.
enum HistoryOutcome: Error {
    case unreadable(String)
}

/// The calls of one thread, two lines each: `i TIME CALL` when it begins and `r TIME RESULT` when it has returned, in
/// nanoseconds of CLOCK_MONOTONIC. A copy or a move adds `s TIME STATE` when it has read the item. A line is one write(2): a kill loses none that was written.
final class HistoryLog: Sendable {
    private let file: CInt

    init(_ path: String) throws {
        file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw Violation(description: "\(path): errno \(errno)") }
    }

    deinit { close(file) }

    /// - Parameters:
    ///   - call: Its name and its arguments.
    ///   - body: The call; returns the result as text.
    /// - Returns: The result, or the error.
    func record(_ call: String, _ body: () throws -> String) -> String {
        append("i", call)
        let result = Self.result(body)
        append("r", result)
        return result
    }

    /// The state that the call has read so far.
    func saw(_ state: String) { append("s", state) }

    /// The errors that a call may answer. The others are unexpected, or only allowed where something is done to the store.
    private static let answers: Set<LockboxError.Code> = [
        .itemNotFound, .duplicateItem, .interactionNotAllowed, .passcodeNotSet, .passcodeAlreadySet,
        .wrongPasscode,
    ]

    private static func result(_ body: () throws -> String) -> String {
        do { return try body() } catch let error as LockboxError where answers.contains(error.code) {
            return error.code.rawValue
        } catch {
            return "error \(kind(error)) \(String(describing: error).replacing("\n", with: " "))"
        }
    }

    /// One word.
    private static func kind(_ error: any Error) -> String {
        switch error {
        case let error as LockboxError: error.code.rawValue
        case HistoryOutcome.unreadable: "unreadable"
        case is Violation: "violation"
        default: "other"
        }
    }

    private func append(_ kind: String, _ text: String) {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        let line = "\(kind) \(time.tv_sec * 1_000_000_000 + time.tv_nsec) \(text)\n"
        var copy = line
        let count = copy.withUTF8 { write(file, $0.baseAddress, $0.count) }
        // Without its log a call cannot be judged: full disks and their like are no result.
        if count != line.utf8.count { fatalError("the log could not be written, errno \(errno)") }
    }
}
