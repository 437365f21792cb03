import CProcess
import Lockbox

// Every file of the command imports the C library (Platform+Linux.swift, Platform+Darwin.swift) and
// FoundationEssentials. Full Foundation would be three quarters of the executable.

#if canImport(FoundationEssentials)
    @_exported import FoundationEssentials
#else
    @_exported import Foundation
#endif

/// Returns the path without symbolic links, or nil if nothing is there.
func realPath(_ path: UnsafePointer<CChar>) -> String? {
    guard let found = realpath(path, nil) else { return nil }
    defer { free(found) }
    return String(cString: found)
}

/// Keeps secrets in this process's memory from other programs of the user, and out of core dumps.
enum ProcessMemory {
    /// The limit of the size of core dumps that this process was started with.
    nonisolated(unsafe) private(set) static var startLimit: UInt64 = 0

    /// Called once, before anything secret is read.
    static func protect() {
        forbid_reading_memory()
        startLimit = replace_core_limit(0)
    }

    /// Gives a program that replaces this one the limit that this one was started with. The system itself allows others
    /// to read the new program's memory.
    static func restoreCoreLimit() { _ = replace_core_limit(startLimit) }
}

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

/// Whether a call that has just failed can be repeated. Waits for a descriptor that does not block, as node, asyncio and ssh leave
/// their children's.
func canRepeat(_ descriptor: CInt, waitingFor events: CInt) -> Bool {
    if errno == EINTR { return true }
    guard errno == EAGAIN else { return false }
    var request = pollfd(fd: descriptor, events: Int16(events), revents: 0)
    poll(&request, 1, -1)
    return true
}

/// The process's environment variables. Empty variables count as unset.
enum Environment {
    static func isSet(_ name: String) -> Bool { getenv(name).map { $0.pointee != 0 } ?? false }

    /// - Throws: A ``Failure`` if the value is not UTF-8. Repaired, two folders could become one.
    static subscript(name: String) -> String? {
        get throws {
            guard let value = getenv(name), value.pointee != 0 else { return nil }
            if let text = String(validatingCString: value) { return text }
            throw Failure(.usage, "The environment variable \(name) is not UTF-8.")
        }
    }
}

/// The program that has started this one, as a hint for the user who is asked for a secret: any program can choose its name.
enum ParentProgram {
    /// The name, or nil for a shell at a terminal, and where /proc does not tell. A shell that runs a command for git is skipped.
    static var name: String? {
        var process = getppid()
        for _ in 0..<8 {
            guard let parent = status(of: process) else { return nil }
            if !["sh", "dash", "bash", "zsh", "fish", "ksh"].contains(parent.name) { return parent.name }
            // A shell at a terminal starts each command in a process group of its own.
            if parent.group != getpgrp() { return nil }
            process = parent.parent
        }
        return nil
    }

    private static func status(of process: pid_t) -> (name: String, parent: pid_t, group: pid_t)? {
        let data = FileManager.default.contents(atPath: "/proc/\(process)/stat") ?? Data()
        // The name is in parentheses, and may have some; its state, its parent and its group follow.
        guard
            let found = String(decoding: data, as: UTF8.self).firstMatch(
                of: /\((.*)\) \S (\d+) (\d+) [^)]*$/.dotMatchesNewlines()
            ),
            let parent = pid_t(found.2), let group = pid_t(found.3)
        else { return nil }
        return (String(found.1), parent, group)
    }
}
