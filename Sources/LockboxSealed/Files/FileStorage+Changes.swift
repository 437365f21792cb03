public import LockboxCore
import LockboxFiles

extension FileStorage: NotifyingStorage {
    /// Begins to report changes of the records in a namespace. Supported on Linux, for changes that are made on this
    /// machine.
    public func subscribe(
        to namespace: String,
        _ report: @escaping @Sendable (Result<RecordNotice, any Error>) -> Void
    ) throws(LockboxError) -> @Sendable () -> Void {
        if let refusal = folders.location.refusal { throw refusal }
        // The store's folder can be moved, and with it the folders `items` and the namespace's.
        let watch = try FolderWatch("\(directory)/items/\(namespace)", depth: 3)
        try watch.start { event in
            report(
                event.map {
                    switch $0 {
                    case .entries(let names): .records(names)
                    case .everything: .everything
                    }
                }
            )
        }
        return { watch.cancel() }
    }
}
