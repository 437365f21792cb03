public import LockboxCore

extension SealedBackend {
    /// Begins to report changes of the items with a prefix. Supported on files on Linux, in memory, and in a cluster.
    /// Creates the store if there is none, and needs memory for the keys of all items.
    @available(*, noasync, message: "Blocks the thread: call it in try await backend.async { }.")
    public func subscribe(
        prefix: String,
        _ report: @escaping @Sendable (Result<LockboxChange, any Error>) -> Void
    ) throws -> @Sendable () -> Void {
        let namespace = reader.namespace(of: prefix, try keyStore.currentKeyring(creating: true))
        let names = KnownNames(self, namespace)
        guard let watching = storage as? any WatchingStorage else {
            throw LockboxError.notSupported(operation: "observing changes")
        }
        let cancel = try watching.subscribe(to: namespace) { names.receive($0, report) }
        do { try names.learn() } catch {
            cancel()
            throw error
        }
        return cancel
    }
}

/// The keys of a namespace's records, so that a record that has been removed still has a name.
private final class KnownNames: Sendable {
    /// The state of a record, as far as it is known.
    private enum RecordState {
        case key(String), unreadable, absent
    }

    private struct State {
        /// The records that were there when they were last looked at.
        var seen: [RecordID: RecordState] = [:]
        /// Whether all that were there at the beginning have been looked at.
        var isComplete = false
    }

    private let backend: SealedBackend
    private let namespace: String
    private let state = Protected(State())

    init(_ backend: SealedBackend, _ namespace: String) {
        self.backend = backend
        self.namespace = namespace
    }

    /// Learns the keys of all items. A notice received meanwhile is newer.
    func learn() throws {
        state.withLock { $0.isComplete = false }
        let keyring = try backend.keyStore.currentKeyring()
        // Many at a time: there may be thousands, on a network.
        try backend.reader.forEachRecordBesideMoves(in: namespace) { item in
            var found = RecordState.absent
            if let metadata = try backend.reader.readableMetadata(
                item,
                keyring,
                unreadable: { _ in found = .unreadable }
            ) {
                found = .key(metadata.key.key)
            }
            if case .absent = found { return false }
            state.withLock { if $0.seen[item.id] == nil { $0.seen[item.id] = found } }
            return true
        }
        state.withLock { $0.isComplete = true }
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
            for id in names.compactMap({ RecordID(name: $0) }) {
                if let change = change(of: id) { report(.success(change)) }
            }
        case .failure(let error): report(.failure(error))
        }
    }

    /// Returns nil if the item was made and removed since the last look, so that no process can have read it.
    private func change(of id: RecordID) -> LockboxChange? {
        let found = recordState(of: id)
        return state.withLock { state in
            let old = state.seen[id]
            switch found {
            case .key(let key):
                state.seen[id] = found
                return .item(key)
            case .unreadable: if old == nil { state.seen[id] = found }
            case .absent:
                state.seen[id] = nil
                if old == nil, state.isComplete { return nil }
            }
            if case .key(let key) = old { return .item(key) }
            return .unknownItem
        }
    }

    private func recordState(of id: RecordID) -> RecordState {
        let record = ItemRecord(name: RecordName(namespace: namespace, name: id.name), id: id)
        do {
            let keyring = try backend.keyStore.currentKeyring()
            return try backend.reader.metadata(record, keyring).content.map { .key($0.key.key) } ?? .absent
        } catch {
            return .unreadable
        }
    }
}
