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
        findings += lockFindings(in: root)
        // One after the other: each open folder is a descriptor.
        for namespace in try namespaces() {
            let folder = try? folders.sparingDescriptors { () throws(LockboxError) in
                try folders.folder(.namespace(namespace), creating: false)
            }
            if let folder { findings += lockFindings(in: folder) }
        }
        return findings
    }

    private func lockFindings(in folder: Directory) -> [StoreFinding] {
        do throws(LockboxError) { try folder.checkFile(LockFile.name) } catch {
            return [StoreFinding(error, location: folder.filePath(LockFile.name))]
        }
        return []
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
