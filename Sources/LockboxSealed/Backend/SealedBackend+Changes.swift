public import LockboxCore

extension SealedBackend: NotifyingBackend {
    /// See ``NotifyingBackend/subscribe(prefix:_:)``. Supported on files on Linux, and in memory. Creates the
    /// store if there is none, and needs memory for the keys of all items.
    public func subscribe(
        prefix: String,
        _ report: @escaping @Sendable (Result<LockboxChange, any Error>) -> Void
    ) throws -> @Sendable () -> Void {
        guard let storage = storage as? any NotifyingStorage else {
            throw LockboxError.notSupported(operation: "changes")
        }
        let namespace = namespace(of: prefix, try keys.currentKeyring(creating: true))
        let names = KnownNames(self, namespace)
        let cancel = try storage.subscribe(to: namespace) { names.receive($0, report) }
        do { try names.learn() } catch {
            cancel()
            throw error
        }
        return cancel
    }
}

/// The keys of a namespace's records, so that a record that has been removed still has a name.
private final class KnownNames<Storage: RecordStorage>: Sendable {
    private let backend: SealedBackend<Storage>
    private let namespace: String
    private let keys = Protected<[RecordID: String]>([:])

    init(_ backend: SealedBackend<Storage>, _ namespace: String) {
        self.backend = backend
        self.namespace = namespace
    }

    /// Learns the keys of all items. What is received meanwhile is newer.
    func learn() throws {
        let keyring = try backend.keys.currentKeyring()
        for item in try backend.items(in: namespace) {
            guard let metadata = try backend.metadata(item, keyring, unreadable: { _ in }) else { continue }
            keys.withLock { if $0[item.id] == nil { $0[item.id] = metadata.key.key } }
        }
    }

    func receive(
        _ notice: Result<RecordNotice, any Error>,
        _ report: (Result<LockboxChange, any Error>) -> Void
    ) {
        switch notice {
        case .success(.everything):
            // The store may be gone. Then the known names are all there are.
            try? learn()
            report(.success(.everything))
        case .success(.records(let names)):
            for id in names.compactMap({ RecordID(name: $0) }) { report(.success(change(of: id))) }
        case .failure(let error): report(.failure(error))
        }
    }

    private func change(of id: RecordID) -> LockboxChange {
        let record = ItemRecord(name: RecordName(namespace: namespace, name: id.name), id: id)
        do {
            let keyring = try backend.keys.currentKeyring()
            let key = try backend.metadata(record, keyring)?.key.key
            let known = keys.withLock { keys in
                defer { keys[id] = key }
                return keys[id]
            }
            return (key ?? known).map(LockboxChange.item) ?? .unknownItem
        } catch {
            return keys.withLock { $0[id] }.map(LockboxChange.item) ?? .unknownItem
        }
    }
}
