/// Handles standard input, output and error that were closed when the command was started.
enum StandardDescriptors {
    /// Opens /dev/null for each closed descriptor. Otherwise a file could be opened in its place, and messages
    /// would be written into it. Reading and writing still fail.
    static func occupy() throws {
        for descriptor in STDIN_FILENO...STDERR_FILENO where fcntl(descriptor, F_GETFD) < 0 {
            let access = descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY
            guard open("/dev/null", access) == descriptor else {
                throw Failure(.inputOutput, "/dev/null cannot be opened.")
            }
        }
    }
}
