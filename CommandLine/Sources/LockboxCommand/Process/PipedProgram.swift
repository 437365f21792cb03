import CProcess
import Dispatch
@_spi(Extensions) import Lockbox

/// A program that gets its standard input from this one, and prints to it.
enum PipedProgram {
    struct Failed: Error { let status: CInt }

    typealias Words = [UnsafeMutablePointer<CChar>?]

    /// Returns what the program prints. Until `ignore_signals(0)`, signals that a terminal sends to both end only the program.
    static func output(of arguments: Words, input: Data) throws -> Data {
        var (toProgram, fromProgram): (CInt, CInt) = (-1, -1)
        let program = start_with_pipes(arguments, ProcessMemory.startLimit, 0, &toProgram, &fromProgram)
        guard program > 0 else { throw Failure.system("No process can be started") }
        let output = Result { try exchange(input, to: toProgram, from: fromProgram) }
        close(fromProgram)
        var status: CInt = 0
        while waitpid(program, &status, 0) < 0 {
            if errno != EINTR { throw Failure.system("It is not known how the command ended") }
        }
        if status != 0 { throw Failed(status: exitCode(status)) }
        return try output.get()
    }

    /// The same, for words that are no arguments of this process. Signals end both.
    static func output(ofWords words: [String], input: Data) throws -> Data {
        defer { ignore_signals(0) }
        return try withWords(words) { try output(of: $0, input: input) }
    }

    /// Starts a program that outlives this one, and that gets no signal of a terminal. Returns its standard input and output.
    static func startDetached(_ words: [String]) throws -> (input: CInt, output: CInt) {
        var (input, output): (CInt, CInt) = (-1, -1)
        defer { ignore_signals(0) }
        let program = withWords(words) {
            start_with_pipes($0, ProcessMemory.startLimit, 1, &input, &output)
        }
        guard program > 0 else { throw Failure.system("No process can be started") }
        return (input, output)
    }

    /// The exit status of a shell for what wait(2) says.
    static func exitCode(_ status: CInt) -> CInt {
        status & 0x7F == 0 ? status >> 8 & 0xFF : 128 + status & 0x7F
    }

    private static func withWords<Result>(_ words: [String], _ body: (Words) throws -> Result) rethrows
        -> Result
    {
        let copies = words.map { (word: String) in strdup(word) }
        defer { for copy in copies { free(copy) } }
        return try body(copies + [nil])
    }

    /// The program may print before it has read everything. Closes the pipe to it.
    private static func exchange(_ input: Data, to program: CInt, from output: CInt) throws -> Data {
        let isWritten = DispatchSemaphore(value: 0)
        let write: @Sendable () -> Void = {
            Output.writeAll(input, to: program)
            close(program)
            isWritten.signal()
        }
        // A pipe has room for this. Otherwise it takes another thread.
        if input.count <= 4096 {
            write()
        } else {
            do { try detachThread(write) } catch {
                close(program)
                throw error
            }
        }
        defer { isWritten.wait() }
        return try Input.all(from: output, "The output of the command")
    }
}
