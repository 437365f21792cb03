import CProcess

/// Keeps secrets in this process's memory from other programs of the user, and out of core dumps.
enum ProcessMemory {
    nonisolated(unsafe) private static var coreLimit: UInt64?

    /// Called once, before anything secret is read.
    static func protect() {
        forbid_reading_memory()
        coreLimit = replace_core_limit(0)
    }

    /// Gives a program that replaces this one the limit that this one was started with. The system itself allows others
    /// to read the new program's memory.
    static func restoreCoreLimit() {
        if let coreLimit { _ = replace_core_limit(coreLimit) }
    }
}
