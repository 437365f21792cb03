#if canImport(Glibc)
    import Lockbox

    extension MigrationSource {
        /// The `UserDefaults` of another program, which Foundation keeps in a property list on Linux.
        ///
        /// The product LockboxUserDefaults reads them through Foundation, which the command does without.
        ///
        /// - Parameter suiteName: As in `UserDefaults(suiteName:)`; for a program's standard defaults, its name.
        static func userDefaults(suiteName: String) -> MigrationSource {
            .propertyList(at: UserDefaultsFile.path(suiteName: suiteName))
        }
    }

    /// Where Foundation keeps `UserDefaults` on Linux.
    enum UserDefaultsFile {
        /// - Parameter suiteName: Foundation takes it for a path, with slashes and dots.
        static func path(suiteName: String) -> String {
            let path = suiteName.hasPrefix("/") ? suiteName : "\(folder)/\(suiteName)"
            // Folders on the way up need not be there.
            return URL(filePath: "\(path).plist", directoryHint: .notDirectory).standardized.path
        }

        /// `XDG_CONFIG_HOME`, or else `.config` in `HOME`. Foundation ignores a relative path in the first, as the XDG
        /// specification says, and takes the root folder without the second.
        private static var folder: String {
            if let configuration = Environment["XDG_CONFIG_HOME"], configuration.hasPrefix("/") {
                return configuration
            }
            return "\(Environment["HOME"] ?? "")/.config"
        }
    }
#endif
