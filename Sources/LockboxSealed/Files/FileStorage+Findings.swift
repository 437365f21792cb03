public import LockboxCore
import LockboxFiles

extension FileStorage: InspectableStorage {
    /// See ``InspectableStorage/findings()``.
    public func findings() throws -> [StoreFinding] {
        guard let root = try folders.rootAsItIs() else { return [] }
        var report = VerifyReport()
        let own: Set = ["keybag", "device-key", "lock", "items", "tmp", "quarantine"]
        for name in try root.names() where !own.contains(name) {
            report.add(.foreign, root.filePath(name), "it does not belong to the store")
        }
        do {
            if let temporary = try root.directory("tmp", creating: false) {
                for name in try temporary.names() {
                    report.add(
                        .leftOver,
                        temporary.filePath(name),
                        "its writer was killed or is still running"
                    )
                }
            }
        } catch let error as LockboxError {
            report.add(error, root.filePath("tmp"))
        }
        let namespaces = try namespaces().compactMap {
            try? folders.folder(.namespace($0), creating: false)
        }
        for folder in [root] + namespaces {
            do { try folder.checkFile(LockFile.name) } catch let error as LockboxError {
                report.add(error, folder.filePath(LockFile.name))
            }
        }
        return report.findings
    }
}
