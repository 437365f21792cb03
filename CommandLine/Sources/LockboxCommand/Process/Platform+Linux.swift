#if canImport(Glibc)
    @_exported import Glibc
#elseif canImport(Musl)
    @_exported import Musl
#endif

#if canImport(Glibc) || canImport(Musl)
    import Lockbox

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

    extension MigrationSource {
        /// The `UserDefaults` of another program, which Foundation stores in a property list on Linux.
        ///
        /// LockboxUserDefaults reads them with full Foundation, which the command does not link.
        ///
        /// - Parameter suiteName: The name as in `UserDefaults(suiteName:)`. A program's standard defaults are
        ///   under its own name. Foundation interprets it as a path, including slashes and dots.
        static func otherDefaults(suiteName: String) throws -> MigrationSource {
            let path = try suiteName.hasPrefix("/") ? suiteName : "\(folder)/\(suiteName)"
            // Parent folders in the path need not exist.
            return .propertyList(
                at: URL(filePath: "\(path).plist", directoryHint: .notDirectory).standardized.path
            )
        }

        /// Returns `XDG_CONFIG_HOME`, otherwise `.config` in `HOME`. Foundation ignores a relative path in
        /// `XDG_CONFIG_HOME`, as the XDG specification says, and uses the root folder if `HOME` is not set.
        private static var folder: String {
            get throws {
                if let configuration = try Environment["XDG_CONFIG_HOME"], configuration.hasPrefix("/") {
                    return configuration
                }
                return "\(try Environment["HOME"] ?? "")/.config"
            }
        }
    }
#endif
