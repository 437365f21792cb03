#if os(Linux)
    import Foundation
    import Testing

    /// What the executable consists of, linked in either way.
    @Suite struct ExecutableTests {
        /// Full Foundation and ICU's data would make it four times as large, and slower to start.
        @Test(arguments: [
            "libFoundation.so", "libFoundationInternationalization.so", "lib_FoundationICU.so",
            "kCFPreferencesAnyApplication", "icudt",
        ])
        func hasNoFullFoundation(_ name: String) throws {
            let executable = try Data(contentsOf: URL(fileURLWithPath: Sandbox.executable))
            #expect(executable.range(of: Data("libc.so.6".utf8)) != nil, "the control")
            #expect(executable.range(of: Data(name.utf8)) == nil)
        }
    }
#endif
