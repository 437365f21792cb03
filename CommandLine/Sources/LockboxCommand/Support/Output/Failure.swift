import Lockbox

/// An error of the command: a message of one line that says what to do, and the exit status.
struct Failure: Error {
    let status: ExitStatus
    let message: String

    init(_ status: ExitStatus, _ message: String) {
        self.status = status
        self.message = message
    }

    init(_ error: any Error) {
        switch error {
        case let failure as Failure: self = failure
        case let wrong as WrongSecret:
            self.init(.locked, "\(wrong.reason) Check it and try again. Nothing was changed.")
        case let error as LockboxError: self.init(error.status, error.advice)
        default: self.init(.inputOutput, "\(error)")
        }
    }

    /// Runs `body`, and says in the error about an existing item how it can be overwritten.
    static func advising<Result>(_ remedy: String, _ body: () throws -> Result) throws -> Result {
        do { return try body() } catch let error as LockboxError where error.code == .duplicateItem {
            throw Failure(error.status, "\(error.advice) \(remedy)")
        }
    }

    /// The key of a slot. The library calls it a device key.
    static func invalidKey(_ source: String, _ reason: String) -> Failure {
        Failure(.damaged, "The key (\(source.onOneLine)) cannot be used: \(reason). Nothing was changed.")
    }
}
