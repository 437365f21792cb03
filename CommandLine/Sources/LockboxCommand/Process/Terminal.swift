import CProcess

/// The user's terminal, if there is one.
enum Terminal {
    static func isThere(_ descriptor: CInt) -> Bool { isatty(descriptor) == 1 }

    /// Whether the user can be asked: only if this process was started at a terminal, not if it merely has one.
    static var canAsk: Bool {
        let terminal = openToAsk()
        defer { close(terminal) }
        return terminal >= 0 && isInForeground(terminal)
    }

    private static func openToAsk() -> CInt {
        isThere(STDIN_FILENO) || isThere(STDERR_FILENO) ? open("/dev/tty", O_RDWR | O_CLOEXEC) : -1
    }

    /// The number of columns of a terminal, or nil if `descriptor` is not a terminal.
    static func width(of descriptor: CInt) -> Int? {
        guard isThere(descriptor) else { return nil }
        var size = winsize()
        guard ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 80 }
        return Int(size.ws_col)
    }

    /// Whether `descriptor` is a terminal that supports escape sequences.
    static func isCapable(_ descriptor: CInt) -> Bool {
        isThere(descriptor) && (try? Environment["TERM"]) != "dumb"
    }

    /// Whether colored text may be written to `descriptor`.
    static func isColored(_ descriptor: CInt) -> Bool {
        isCapable(descriptor) && (try? Environment["NO_COLOR"]) == nil
    }

    /// Reads a line, without echo unless `isShown`.
    ///
    /// - Parameter several: What to do instead if there are several lines.
    /// - Throws: A ``Failure`` with the message `otherwise` if there is no user to ask, for a secret with the status that one is
    ///   needed. Another one if the line is too long for a terminal, is not UTF-8, or has control characters.
    static func secret(_ question: String, isShown: Bool = false, several: String = "", otherwise: String)
        throws -> TypedSecret
    {
        let refused = isShown ? ExitStatus.conflict : .locked
        let terminal = openToAsk()
        defer { close(terminal) }
        guard terminal >= 0, isInForeground(terminal) else { throw Failure(refused, otherwise) }
        let silence = isShown ? nil : Silence(terminal)
        defer { silence?.end() }
        let question = question.onOneLine
        guard write(terminal, question, question.utf8.count) >= 0, let line = readLine(terminal) else {
            throw Failure(refused, "Nothing was entered.")
        }
        if !isShown, hasMoreLines(terminal) {
            throw Failure(.usage, "More than one line was entered. Nothing was changed.\(several)")
        }
        if line.count >= longestLine {
            throw Failure(
                .usage,
                "The input is too long: a terminal accepts 4094 bytes in a line. Use a file or standard input."
            )
        }
        if !line.isText { throw Failure(.usage, "The input is not UTF-8. Nothing was changed.") }
        line.removePasteMarks()
        if line.hasControlCharacters {
            throw Failure(
                .usage,
                "The input has control characters, as arrow keys send them. Nothing was changed. Type it again, or use a file or a pipe."
            )
        }
        return line
    }

    /// Asks for confirmation: in full if the user must not give it by mistake.
    ///
    /// - Throws: A ``Failure`` with the message `refusal` if it is not given, or with `otherwise` if there is no user to ask.
    static func confirm(
        _ question: String,
        inFull: Bool = false,
        otherwise: String,
        refusal: String = "Nothing was changed."
    ) throws {
        let choice = inFull ? "Type yes:" : "[y/N]"
        let typed = try secret("\(question) \(choice) ", isShown: true, otherwise: otherwise)
        let answer = String(decoding: typed.bytes, as: UTF8.self).lowercased()
        if answer == "yes" || answer == "y" && !inFull { return }
        throw Failure(.conflict, answer == "y" ? "Only yes in full is taken. \(refusal)" : refusal)
    }

    /// Writes to the user's terminal, and to nothing that may be in its place.
    ///
    /// - Throws: `failure` if there is no terminal.
    static func show(_ text: String, orElse failure: Failure) throws {
        let terminal = open("/dev/tty", O_WRONLY | O_CLOEXEC)
        defer { close(terminal) }
        guard terminal >= 0, Output.writeAll(Data(text.utf8), to: terminal) else {
            throw failure
        }
    }

    /// Linux's terminals silently drop everything beyond this number of bytes (termios(3), canonical mode).
    private static let longestLine = 4095

    /// Reads byte by byte, to leave the input after the line. Returns nil at the end of input.
    private static func readLine(_ terminal: CInt) -> TypedSecret? {
        let line = TypedSecret()
        var byte: UInt8 = 0
        defer { wipe_memory(&byte, 1) }
        while true {
            let count = read(terminal, &byte, 1)
            if count < 0, errno == EINTR { continue }
            if count <= 0 { return line.count == 0 ? nil : line }
            if byte == UInt8(ascii: "\n") { return line }
            line.append(byte)
        }
    }

    /// Whether more than one line was pasted, not counting line breaks. Waits a moment, because the input may
    /// come from a program.
    private static func hasMoreLines(_ terminal: CInt) -> Bool {
        var settings = termios()
        // In canonical mode, the terminal holds back a line without a newline.
        if tcgetattr(terminal, &settings) == 0 {
            settings.c_lflag &= ~tcflag_t(ICANON)
            tcsetattr(terminal, TCSANOW, &settings)
        }
        var request = pollfd(fd: terminal, events: Int16(POLLIN), revents: 0)
        var buffer = [UInt8](repeating: 0, count: 256)
        defer { wipe_memory(&buffer, buffer.count) }
        while poll(&request, 1, 100) > 0 {
            let count = read(terminal, &buffer, buffer.count)
            if count <= 0 { return false }
            let breaks = [UInt8(ascii: "\r"), UInt8(ascii: "\n")]
            var rest = buffer[..<count].drop(while: breaks.contains)
            if rest.starts(with: TypedSecret.pasteEnd) { rest = rest.dropFirst(TypedSecret.pasteEnd.count) }
            if !rest.allSatisfy(breaks.contains) { return true }
        }
        return false
    }

    /// Stops the process until it is in the foreground, as shells expect. Returns false if it never can be.
    private static func isInForeground(_ terminal: CInt) -> Bool {
        for _ in 0..<100 {
            let group = tcgetpgrp(terminal)
            if group < 0 || group == getpgrp() { return true }
            kill(0, SIGTTIN)  // does nothing where no shell could wake it again
        }
        return false
    }
}

/// A terminal without echo, until ``end()`` or until a signal ends the process.
private struct Silence {
    /// The signals that stop a process, or do nothing to it.
    private let others =
        [
            SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT, SIGCHLD, SIGURG, SIGWINCH,
        ] + silentSignals

    /// The previous signal handlers.
    private var actions: [(signal: CInt, action: sigaction)] = []

    init?(_ terminal: CInt) {
        guard tcgetattr(terminal, &before) == 0 else { return nil }
        silenced = terminal
        // All signals that end a process, the real-time ones among them.
        for number in 1..<NSIG where !others.contains(number) {
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
        // NOFLSH: Control-Z would also discard the input typed before it.
        hidden.c_lflag |= tcflag_t(ECHONL) | tcflag_t(NOFLSH)
        tcsetattr(terminal, TCSAFLUSH, &hidden)
    }

    /// Signals that the process ignores, for example because of `nohup`, stay ignored.
    private mutating func replace(_ number: CInt, with handler: (@convention(c) (CInt) -> Void)?) {
        var old = sigaction()
        guard is_ignored(number) == 0, sigaction(number, nil, &old) == 0 else { return }
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

// Set before the handler that reads them.
nonisolated(unsafe) private var before = termios()
nonisolated(unsafe) private var silenced: CInt = -1
