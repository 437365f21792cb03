#if canImport(Glibc)
    @_exported import Glibc
#elseif canImport(Musl)
    @_exported import Musl
#endif

#if canImport(Glibc) || canImport(Musl)
    extension sigaction {
        /// Whether the process ignores the signal.
        var isIgnored: Bool {
            unsafeBitCast(__sigaction_handler.sa_handler, to: Int.self)
                == unsafeBitCast(SIG_IGN, to: Int.self)
        }
    }

    /// Swift reads the arguments from there.
    var canReadArguments: Bool { access("/proc/self/cmdline", F_OK) == 0 }

    /// The path of this executable, without symbolic links.
    let ownPath: String? = {
        var buffer = [UInt8](repeating: 0, count: Int(PATH_MAX))
        let count = buffer.withUnsafeMutableBytes {
            readlink("/proc/self/exe", $0.baseAddress!.assumingMemoryBound(to: CChar.self), $0.count)
        }
        return count > 0 && count < buffer.count ? String(validating: buffer[..<count], as: UTF8.self) : nil
    }()
#endif
