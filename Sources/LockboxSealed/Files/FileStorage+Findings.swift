public import LockboxCore

extension FileStorage: InspectableStorage {
    /// Returns the files and folders in the store that do not belong there or are not safe to use.
    public func findings() throws(LockboxError) -> [StoreFinding] {
        guard let root = try folders.rootAsItIs() else { return [] }
        let own: Set = ["keybag", "device-key", "lock", "items", "tmp", "quarantine"]
        var findings = try root.names().filter { !own.contains($0) }.map {
            StoreFinding(
                kind: .foreign,
                location: root.filePath($0),
                reason: "it does not belong to the store"
            )
        }
        do { findings += try leftovers(in: root) } catch {
            findings.append(StoreFinding(error, location: root.filePath("tmp")))
        }
        let namespaces = try namespaces().compactMap {
            try? folders.folder(.namespace($0), creating: false)
        }
        for folder in [root] + namespaces {
            do { try folder.checkFile(LockFile.name) } catch {
                findings.append(StoreFinding(error, location: folder.filePath(LockFile.name)))
            }
        }
        return findings
    }

    private func leftovers(in root: Directory) throws(LockboxError) -> [StoreFinding] {
        guard let temporary = try root.directory("tmp", creating: false) else { return [] }
        return try temporary.names().map {
            StoreFinding(
                kind: .leftover,
                location: temporary.filePath($0),
                reason: "its writer was killed or is still running"
            )
        }
    }
}
