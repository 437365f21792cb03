/// The terminal that somebody sits at, if there is one.
enum Terminal {
    static func isThere(_ descriptor: CInt) -> Bool { isatty(descriptor) == 1 }

    /// Whether somebody can be asked: only if this process was started at a terminal, and not if it merely has one.
    static var canAsk: Bool { isThere(STDIN_FILENO) || isThere(STDERR_FILENO) }

    /// Columns of the terminal on `descriptor`; nil if it is none.
    static func width(of descriptor: CInt) -> Int? {
        guard isThere(descriptor) else { return nil }
        var size = winsize()
        guard ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 80 }
        return Int(size.ws_col)
    }

    /// Whether `descriptor` is a terminal that knows escape sequences.
    static func isCapable(_ descriptor: CInt) -> Bool { isThere(descriptor) && Environment["TERM"] != "dumb" }

    /// Whether `descriptor` may be written to in colour.
    static func isColoured(_ descriptor: CInt) -> Bool {
        isCapable(descriptor) && Environment["NO_COLOR"] == nil
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
        guard isInForeground(terminal) else { throw Failure(.locked, otherwise) }
        let silence = isShown ? nil : Silence(terminal)
        defer { silence?.end() }
        guard write(terminal, question, question.utf8.count) >= 0, let line = readLine(terminal) else {
            throw Failure(.locked, "Nothing was entered.")
        }
        if !isShown, hasMoreLines(terminal) {
            throw Failure(.usage, "More than one line was entered. Nothing was changed.")
        }
        return try text(line)
    }

    /// - Throws: A ``Failure`` for what a terminal cannot have passed on as it was typed.
    private static func text(_ line: [UInt8]) throws -> String {
        if line.count >= longestLine {
            throw Failure(
                .usage,
                "That is longer than a terminal passes on. Give it in a file or on standard input."
            )
        }
        guard let text = String(validating: line, as: UTF8.self) else {
            throw Failure(.usage, "What was entered is not text in UTF-8. Nothing was changed.")
        }
        return text
    }

    /// Linux's terminals drop what comes after this many bytes, without a word (termios(3), canonical mode).
    private static let longestLine = 4095

    /// Byte by byte, as what follows the line is not ours. Nil at the end of input.
    private static func readLine(_ terminal: CInt) -> [UInt8]? {
        var bytes: [UInt8] = []
        var byte: UInt8 = 0
        while true {
            let count = read(terminal, &byte, 1)
            if count < 0, errno == EINTR { continue }
            if count <= 0 { return bytes.isEmpty ? nil : bytes }
            if byte == UInt8(ascii: "\n") { return bytes }
            bytes.append(byte)
        }
    }

    /// Whether more was pasted than the line, but for line breaks; waits a moment for it, as it may be typed by a program.
    private static func hasMoreLines(_ terminal: CInt) -> Bool {
        var settings = termios()
        // Else the terminal keeps to itself what has no newline yet.
        if tcgetattr(terminal, &settings) == 0 {
            settings.c_lflag &= ~tcflag_t(ICANON)
            tcsetattr(terminal, TCSANOW, &settings)
        }
        var request = pollfd(fd: terminal, events: Int16(POLLIN), revents: 0)
        var buffer = [UInt8](repeating: 0, count: 256)
        while poll(&request, 1, 100) > 0 {
            let count = read(terminal, &buffer, buffer.count)
            if count <= 0 { return false }
            let breaks = [UInt8(ascii: "\r"), UInt8(ascii: "\n")]
            if !buffer[..<count].allSatisfy(breaks.contains) { return true }
        }
        return false
    }

    /// Stops, as a shell expects it, until this is the process that the terminal is for. False if it will not be.
    private static func isInForeground(_ terminal: CInt) -> Bool {
        for _ in 0..<100 {
            let group = tcgetpgrp(terminal)
            if group < 0 || group == getpgrp() { return true }
            kill(0, SIGTTIN)  // does nothing where no shell could wake it again
        }
        return false
    }
}

/// A terminal without echo, until ``end()``, or until a signal ends the process.
private struct Silence {
    private static let signals = [SIGINT, SIGTERM, SIGHUP, SIGQUIT]
    /// What the process did at each signal before.
    private var actions: [(signal: CInt, action: sigaction)] = []

    init?(_ terminal: CInt) {
        guard tcgetattr(terminal, &before) == 0 else { return nil }
        silenced = terminal
        for number in Self.signals {
            replace(number) { number in
                tcsetattr(silenced, TCSAFLUSH, &before)
                signal(number, SIG_DFL)
                raise(number)
            }
        }
        // Control-Z would leave the shell without echo.
        replace(SIGTSTP, with: SIG_IGN)
        var hidden = before
        hidden.c_lflag &= ~tcflag_t(ECHO)
        // And it would take away what was typed before it.
        hidden.c_lflag |= tcflag_t(ECHONL) | tcflag_t(NOFLSH)
        tcsetattr(terminal, TCSAFLUSH, &hidden)
    }

    /// What the process ignores, as `nohup` has it, it goes on ignoring.
    private mutating func replace(_ number: CInt, with handler: (@convention(c) (CInt) -> Void)?) {
        var old = sigaction()
        guard sigaction(number, nil, &old) == 0, !old.isIgnored else { return }
        actions.append((number, old))
        signal(number, handler)
    }

    func end() {
        tcsetattr(silenced, TCSAFLUSH, &before)
        for (number, action) in actions {
            var action = action
            sigaction(number, &action, nil)
        }
    }
}

// Both are set before the handler that reads them is.
nonisolated(unsafe) private var before = termios()
nonisolated(unsafe) private var silenced: CInt = -1
