import Foundation

/// The terminal that somebody sits at, if there is one.
enum Terminal {
    static func isThere(_ descriptor: CInt) -> Bool { isatty(descriptor) == 1 }

    /// Whether somebody can be asked: only if this process was started at a terminal, and not if it merely has one.
    static var canAsk: Bool { isThere(STDIN_FILENO) || isThere(STDERR_FILENO) }

    /// Columns of the terminal on standard output; nil if it is none.
    static var width: Int? {
        guard isThere(STDOUT_FILENO) else { return nil }
        var size = winsize()
        guard ioctl(STDOUT_FILENO, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 80 }
        return Int(size.ws_col)
    }

    /// Whether `descriptor` may be written to in colour.
    static func isColoured(_ descriptor: CInt) -> Bool {
        isThere(descriptor) && Environment["NO_COLOR"] == nil && Environment["TERM"] != "dumb"
    }

    /// A line that is typed, and not shown.
    ///
    /// - Throws: A ``Failure`` at once if there is nobody to ask, which says `otherwise`.
    static func secret(_ question: String, otherwise: String) throws -> String {
        try ask(question, isShown: false, otherwise: otherwise)
    }

    /// Yes or no; without a terminal, yes.
    static func confirms(_ question: String) throws -> Bool {
        guard canAsk else { return true }
        let answer = try ask("\(question) [y/N] ", isShown: true, otherwise: "")
        return ["y", "yes"].contains(answer.lowercased())
    }

    private static func ask(_ question: String, isShown: Bool, otherwise: String) throws -> String {
        guard canAsk else { throw Failure(.locked, otherwise) }
        let terminal = open("/dev/tty", O_RDWR | O_CLOEXEC)
        guard terminal >= 0 else { throw Failure(.locked, otherwise) }
        defer { close(terminal) }
        let silence = isShown ? nil : Silence(terminal)
        defer { silence?.end() }
        guard write(terminal, question, question.utf8.count) >= 0, let line = readLine(terminal) else {
            throw Failure(.locked, "Nothing was entered.")
        }
        return line
    }

    /// Byte by byte, as what follows the line is not ours. Nil at the end of input.
    private static func readLine(_ terminal: CInt) -> String? {
        var bytes: [UInt8] = []
        var byte: UInt8 = 0
        while true {
            let count = read(terminal, &byte, 1)
            if count < 0, errno == EINTR { continue }
            if count <= 0 { return bytes.isEmpty ? nil : String(decoding: bytes, as: UTF8.self) }
            if byte == UInt8(ascii: "\n") { return String(decoding: bytes, as: UTF8.self) }
            bytes.append(byte)
        }
    }
}

/// A terminal without echo, until ``end()``, or until a signal ends the process.
private struct Silence {
    private static let signals = [SIGINT, SIGTERM, SIGHUP, SIGQUIT]

    init?(_ terminal: CInt) {
        guard tcgetattr(terminal, &before) == 0 else { return nil }
        silenced = terminal
        for number in Self.signals {
            signal(number) { number in
                tcsetattr(silenced, TCSAFLUSH, &before)
                signal(number, SIG_DFL)
                raise(number)
            }
        }
        // Control-Z would leave the shell without echo.
        signal(SIGTSTP, SIG_IGN)
        var hidden = before
        hidden.c_lflag &= ~tcflag_t(ECHO)
        hidden.c_lflag |= tcflag_t(ECHONL)
        tcsetattr(terminal, TCSAFLUSH, &hidden)
    }

    func end() {
        tcsetattr(silenced, TCSAFLUSH, &before)
        for number in Self.signals + [SIGTSTP] { signal(number, SIG_DFL) }
    }
}

// Both are set before the handler that reads them is.
nonisolated(unsafe) private var before = termios()
nonisolated(unsafe) private var silenced: CInt = -1
