#if canImport(Darwin)
    import Foundation

    extension DefaultsItems {
        /// The name under which the standard defaults are stored.
        static var standardDomain: String {
            Bundle.main.bundleIdentifier ?? ProcessInfo.processInfo.processName
        }
    }
#endif
