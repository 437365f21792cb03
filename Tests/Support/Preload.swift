import Foundation

/// A library that takes the place of functions of the system in another process.
struct Preload {
    static let isThere = FileManager.default.isExecutableFile(atPath: "/usr/bin/cc")

    let environment: [String: String]

    /// - Parameter source: In C.
    init(_ source: String) throws {
        let path = NSTemporaryDirectory() + "preload-\(UUID()).so"
        let compiler = Process()
        compiler.executableURL = URL(fileURLWithPath: "/usr/bin/cc")
        compiler.arguments = ["-shared", "-fPIC", "-w", "-x", "c", "-", "-o", path]
        let input = Pipe()
        compiler.standardInput = input
        try compiler.run()
        try input.fileHandleForWriting.write(contentsOf: Data(source.utf8))
        try input.fileHandleForWriting.close()
        compiler.waitUntilExit()
        environment = ["LD_PRELOAD": path]
    }
}

extension TestProcess {
    /// One that hangs must not hang the tests.
    func killAfter(_ time: Duration) {
        let process = processIdentifier
        Task.detached {
            try await Task.sleep(for: time)
            Foundation.kill(process, SIGKILL)
        }
    }
}
