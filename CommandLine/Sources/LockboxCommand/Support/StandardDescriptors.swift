/// Standard input, output and error, which may have been closed when the command was started.
enum StandardDescriptors {
    /// Takes the place of those that are closed: a file that is opened must not become one of them, or messages would be
    /// written into it. Reading and writing fail as before.
    static func occupy() throws {
        for descriptor in STDIN_FILENO...STDERR_FILENO where fcntl(descriptor, F_GETFD) < 0 {
            let access = descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY
            guard open("/dev/null", access) == descriptor else {
                throw Failure(.inputOutput, "/dev/null cannot be opened.")
            }
        }
    }
}
