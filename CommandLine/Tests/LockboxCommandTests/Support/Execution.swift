import Foundation
import Testing

/// What a process did.
struct Outcome {
    /// The exit status; minus the signal's number if it died of one.
    let status: Int32
    let bytes: Data
    let error: String
    /// What a terminal would have shown.
    let screen: String

    var output: String { String(decoding: bytes, as: UTF8.self) }
}

/// One run of a program, with pipes or a pseudo-terminal as its standard descriptors.
struct Execution {
    /// Something that is typed once the terminal shows `question`.
    struct Answer {
        /// The process that asks, which waits for the answer, and what its terminal shows.
        struct Asked {
            let process: pid_t
            let screen: String
        }

        let question: String
        let typed: (Asked) -> Data

        init(_ question: String, _ typed: String) { self.init(question, bytes: Data(typed.utf8)) }

        init(_ question: String, bytes: Data) { self.init(question) { _ in bytes } }

        init(_ question: String, _ typed: @escaping (Asked) -> Data) {
            self.question = question
            self.typed = typed
        }
    }

    let executable: String
    var arguments: [String]
    var environment: [String: String]
    /// Standard input, where it is no terminal.
    var input = Data()
    /// Which of the descriptors 0, 1 and 2 are the terminal.
    var terminal: Set<CInt> = []
    var answers: [Answer] = []
    /// Descriptors of this process that the child gets, under these numbers.
    var inherited: [CInt: CInt] = [:]
    var size = (columns: UInt16(80), rows: UInt16(24))
    /// Is called again and again while the process runs.
    var watch: (pid_t) -> Void = { _ in }
    /// Is told of the terminal's settings when the process has ended.
    var inspect: (termios) -> Void = { _ in }

    /// Runs it to its end; one that does not end within a minute is killed, and fails the test.
    func run() throws -> Outcome {
        Self.ignoreBrokenPipes
        let screen = try terminal.isEmpty ? nil : PseudoTerminal(size)
        var pipes: [CInt: (reading: CInt, writing: CInt)] = [:]
        for descriptor: CInt in 0...2 where !terminal.contains(descriptor) {
            pipes[descriptor] = try Self.pipe()
        }

        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        // The first terminal that a session's leader opens becomes its own.
        if let screen {
            for descriptor in terminal.sorted() {
                posix_spawn_file_actions_addopen(&actions, descriptor, screen.path, O_RDWR, 0)
            }
        }
        for (descriptor, ends) in pipes {
            posix_spawn_file_actions_adddup2(
                &actions,
                descriptor == 0 ? ends.reading : ends.writing,
                descriptor
            )
        }
        for (number, descriptor) in inherited {
            posix_spawn_file_actions_adddup2(&actions, descriptor, number)
        }
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        var asUsual = sigset_t()
        sigemptyset(&asUsual)
        sigaddset(&asUsual, SIGPIPE)
        posix_spawnattr_setsigdefault(&attributes, &asUsual)
        posix_spawnattr_setflags(
            &attributes,
            Self.newSession | Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF)
        )

        var child: pid_t = 0
        let words = ([executable] + arguments).map { strdup($0) } + [nil]
        let variables = environment.map { strdup("\($0)=\($1)") } + [nil]
        defer { (words + variables).forEach { free($0) } }
        let code = Self.spawning.withLock {
            posix_spawn(&child, executable, &actions, &attributes, words, variables)
        }
        for (descriptor, ends) in pipes { close(descriptor == 0 ? ends.reading : ends.writing) }
        guard code == 0 else { throw POSIXError(POSIXErrorCode(rawValue: code) ?? .EIO) }

        var exchange = Exchange(child: child, input: [UInt8](input), answers: answers)
        exchange.watch = watch
        exchange.talk(
            input: pipes[0]?.writing,
            output: pipes[1]?.reading,
            error: pipes[2]?.reading,
            terminal: screen?.master
        )
        var status: CInt = 0
        while waitpid(child, &status, 0) < 0, errno == EINTR {}
        if let screen { inspect(screen.settings) }
        let unasked = exchange.answers.map(\.question)
        #expect(unasked.isEmpty, "never asked; on the screen: \(exchange.screenText)")
        return Outcome(
            status: status & 0x7F == 0 ? (status >> 8) & 0xFF : -(status & 0x7F),
            bytes: Data(exchange.output),
            error: String(decoding: exchange.error, as: UTF8.self),
            screen: exchange.screenText
        )
    }

    /// A program may end without having read what it was given: no reason for the tests to die.
    private static let ignoreBrokenPipes: Void = { _ = signal(SIGPIPE, SIG_IGN) }()

    /// `POSIX_SPAWN_SETSID`, which the Glibc module does not have.
    private static let newSession: Int16 = 0x80

    /// Keeps a child that starts meanwhile from getting the ends of another's pipes.
    private static let spawning = NSLock()

    private static func pipe() throws -> (reading: CInt, writing: CInt) {
        var ends: [CInt] = [0, 0]
        return try spawning.withLock {
            guard Foundation.pipe(&ends) == 0 else { throw POSIXError(.EMFILE) }
            for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
            return (ends[0], ends[1])
        }
    }
}

/// A terminal without a window.
final class PseudoTerminal {
    let master: CInt
    let path: String
    /// Kept open, so that the settings outlive the child.
    private let slave: CInt

    init(_ size: (columns: UInt16, rows: UInt16)) throws {
        master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC)
        var (number, isLocked): (CInt, CInt) = (0, 0)
        guard ioctl(master, Self.setLock, &isLocked) == 0, ioctl(master, Self.getNumber, &number) == 0 else {
            throw POSIXError(.ENXIO)
        }
        path = "/dev/pts/\(number)"
        slave = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC)
        var window = winsize(ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0)
        _ = ioctl(master, UInt(TIOCSWINSZ), &window)
    }

    // TIOCSPTLCK and TIOCGPTN; the Glibc module has neither these nor unlockpt(3) and ptsname(3).
    private static let setLock: UInt = 0x4004_5431
    private static let getNumber: UInt = 0x8004_5430

    deinit {
        close(master)
        close(slave)
    }

    var settings: termios {
        var settings = termios()
        tcgetattr(slave, &settings)
        return settings
    }
}

/// Feeds a process and listens to it, all at once, so that neither waits for the other.
private struct Exchange {
    let child: pid_t
    var input: [UInt8]
    var answers: [Execution.Answer]
    var output: [UInt8] = []
    var error: [UInt8] = []
    var watch: (pid_t) -> Void = { _ in }
    private var screen: [UInt8] = []
    /// How much of the screen was there when the last answer was typed.
    private var answered = 0

    init(child: pid_t, input: [UInt8], answers: [Execution.Answer]) {
        self.child = child
        self.input = input
        self.answers = answers
    }

    var screenText: String { String(decoding: screen, as: UTF8.self) }

    mutating func talk(input writing: CInt?, output: CInt?, error: CInt?, terminal: CInt?) {
        var writing = writing
        if let writing { _ = fcntl(writing, F_SETFL, O_NONBLOCK) }
        var open = Set([output, error].compactMap { $0 })
        let deadline = ContinuousClock.now + .seconds(60)
        var isRunning = true
        while isRunning || !open.isEmpty {
            var requests = open.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
            if let terminal { requests.append(pollfd(fd: terminal, events: Int16(POLLIN), revents: 0)) }
            if let writing { requests.append(pollfd(fd: writing, events: Int16(POLLOUT), revents: 0)) }
            poll(&requests, nfds_t(requests.count), 20)
            for request in requests where request.revents != 0 {
                switch request.fd {
                case writing: if !feed(request.fd) { writing = nil }
                case terminal: if read(request.fd, into: \.screen) { answer(request.fd) }
                case output: if !read(request.fd, into: \.output) { open.remove(request.fd) }
                default: if !read(request.fd, into: \.error) { open.remove(request.fd) }
                }
            }
            if isRunning { isRunning = !hasEnded }
            if isRunning { watch(child) }
            if ContinuousClock.now > deadline {
                Issue.record("still running after a minute; on the screen: \(screenText)")
                kill(child, SIGKILL)
                break
            }
        }
        if let terminal {
            _ = fcntl(terminal, F_SETFL, O_NONBLOCK)
            while read(terminal, into: \.screen) {}
        }
        for descriptor in open { close(descriptor) }
        if let writing { close(writing) }
    }

    private var hasEnded: Bool {
        var info = siginfo_t()
        return waitid(P_PID, id_t(child), &info, WEXITED | WNOHANG | WNOWAIT) == 0
            && info._sifields._sigchld.si_pid == child
    }

    /// False when there is no more to be written, or nobody to read it.
    private mutating func feed(_ descriptor: CInt) -> Bool {
        let count = write(descriptor, input, input.count)
        if count > 0 { input.removeFirst(count) }
        if count < 0, errno == EAGAIN { return true }
        if count >= 0, !input.isEmpty { return true }
        close(descriptor)
        return false
    }

    private mutating func read(_ descriptor: CInt, into place: WritableKeyPath<Exchange, [UInt8]>) -> Bool {
        var buffer = [UInt8](repeating: 0, count: 65536)
        let count = Foundation.read(descriptor, &buffer, buffer.count)
        if count > 0 { self[keyPath: place].append(contentsOf: buffer[..<count]) }
        return count > 0
    }

    private mutating func answer(_ terminal: CInt) {
        let new = String(decoding: screen[answered...], as: UTF8.self)
        guard let next = answers.first, new.contains(next.question) else { return }
        answered = screen.count
        answers.removeFirst()
        let typed = next.typed(.init(process: child, screen: screenText))
        _ = typed.withUnsafeBytes { write(terminal, $0.baseAddress, $0.count) }
    }
}
