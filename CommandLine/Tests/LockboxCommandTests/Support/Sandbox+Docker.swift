import Foundation

extension Sandbox {
    /// Runs the helper that Docker starts.
    func docker(_ action: String, _ input: String = "") throws -> Outcome {
        var execution = try dockerHelper(action)
        execution.input = Data(input.utf8)
        return try execution.run()
    }

    /// The command under another name.
    func dockerHelper(_ action: String) throws -> Execution {
        let helper = "\(home)/docker-credential-lockbox"
        if !FileManager.default.fileExists(atPath: helper) {
            try FileManager.default.createSymbolicLink(atPath: helper, withDestinationPath: Self.executable)
        }
        return execution([action], executable: helper)
    }
}
