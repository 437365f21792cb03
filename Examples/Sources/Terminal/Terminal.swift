import Foundation

/// The examples' questions to a person.
package enum Terminal {
    /// A line of standard input. The question is asked on standard error, so that output can be piped.
    package static func ask(_ question: String) throws -> String {
        FileHandle.standardError.write(Data(question.utf8))
        guard let line = readLine(), !line.isEmpty else { throw Refusal("nothing was entered") }
        return line
    }

    /// The same, without showing what is typed if that is at a terminal.
    package static func askWithoutEcho(_ question: String) throws -> String {
        guard tcgetattr(STDIN_FILENO, &shown) == 0 else { return try ask(question) }
        var hidden = shown
        hidden.c_lflag &= ~tcflag_t(ECHO)
        // Control-C must not leave the terminal without echo.
        signal(SIGINT) { _ in
            tcsetattr(STDIN_FILENO, TCSAFLUSH, &Terminal.shown)
            _exit(130)
        }
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden)
        defer {
            tcsetattr(STDIN_FILENO, TCSAFLUSH, &shown)
            signal(SIGINT, SIG_DFL)
            FileHandle.standardError.write(Data("\n".utf8))
        }
        return try ask(question)
    }

    /// Only ever set before the handler that reads it is.
    nonisolated(unsafe) private static var shown = termios()

    /// Runs a command with the program's arguments. An error becomes a line on standard error and the status 1.
    package static func run(_ command: (_ arguments: [String]) throws -> Void) {
        do { try command(Array(CommandLine.arguments.dropFirst())) } catch {
            FileHandle.standardError.write(Data("\(ProcessInfo.processInfo.processName): \(error)\n".utf8))
            exit(1)
        }
    }
}

/// Why a program does not do what it was asked.
package struct Refusal: Error, CustomStringConvertible {
    package let description: String
    package init(_ description: String) { self.description = description }
}
