import Lockbox
@_spi(Extensions) import LockboxStore

/// The store and the key prefix that a command uses.
struct Store {
    let choice: StoreChoice
    let storage: any RecordStorage
    /// The cluster, or nil if the store is in files.
    let cluster: (any ClusterStorage)?
    /// The folder, or the address.
    let location: String
    let backend: SealedBackend
    let lockbox: Lockbox

    /// Whether the user may be asked for the passcode at a terminal.
    let asks: Bool

    let given = GivenSecret()

    var prefix: String { lockbox.keyPrefix }

    init(_ choice: StoreChoice, prefix: String, asks: Bool) throws {
        self.choice = choice
        self.asks = asks
        switch try choice.storeAddress {
        case .folder(let folder):
            let files = folder.map { FileStorage(directory: $0) } ?? FileStorage.default
            (storage, cluster, location) = (files, nil, files.directory)
        case .cluster(let address):
            let etcd = try address.storage(choice.access)
            (storage, cluster, location) = (etcd, etcd, "etcd:\(etcd.root)")
        }
        let deviceKey = try choice.deviceKey
        backend = SealedBackend(storage: storage, deviceKey: deviceKey, requires: choice.requirements)
        lockbox = try Lockbox(keyPrefix: prefix, backend: backend)
        note("the prefix \(prefix.onOneLine) of the store \(location.onOneLine)")
    }

    /// The same store with another prefix.
    func of(_ prefix: String) throws -> Store {
        if prefix == self.prefix { return self }
        var choice = choice
        choice.prefix = prefix
        return try Store(choice, prefix: prefix, asks: asks)
    }

    func note(_ text: @autoclosure () -> String) {
        if choice.verbose { Output.note("lockbox: \(text())") }
    }

    /// Prints additional information, unless --quiet is given.
    func say(_ text: String) {
        if !choice.quiet { Output.note("lockbox: \(text)") }
    }

    /// Says at a terminal what was done. Scripts need no such line.
    func tell(_ text: @autoclosure () -> String) {
        if Terminal.isThere(STDERR_FILENO) { say(text()) }
    }

    /// Prints what has been done.
    func report(_ text: String) throws {
        if !choice.quiet { try Output.line(text) }
    }

    typealias Progress = (StoreProgress) -> Void

    /// Runs a long call, and shows its progress.
    func showingProgress<Result>(of work: String, _ body: (Progress) throws -> Result) throws -> Result {
        var progress = ProgressReport(work, quiet: choice.quiet)
        defer { progress.end() }
        return try body { progress.show($0) }
    }

    /// The record of an item that was named by its path or its record.
    func record(_ name: String) -> String {
        // In files, and in a cluster.
        let folder = ["items", "i"].map { "\(location)/\($0)/" }.first(where: name.hasPrefix)
        return String(name.dropFirst(folder?.count ?? 0))
    }

    func missing(_ key: String) -> Failure {
        if let item = try? ItemKey(prefix: prefix, key: key),
            (try? backend.attributes(for: item, now: nil))?.isExpired(at: Date()) == true
        {
            return expired(key)
        }
        if let found = key.wholeMatch(of: /lockbox:\/\/([^\/#]+)\/([^#]+)(#.*)?/) {
            return Failure(
                .noSuchItem,
                "\(key.onOneLine) is a reference: type the key \(String(found.2).onOneLine), with --prefix \(String(found.1).onOneLine)."
            )
        }
        let keys = (try? lockbox.list().items.keys).map(Array.init) ?? []
        return Failure(
            .noSuchItem,
            "There is no item for the key \(String(reflecting: key)) under the prefix \(String(reflecting: prefix)) in the "
                + "store \(location.onOneLine).\(key.contains("*") ? " Keys are not patterns here: `lockbox list` takes one." : Similar.question(key, keys))"
        )
    }

    func expired(_ key: String) -> Failure {
        Failure(
            .noSuchItem,
            "The item for the key \(String(reflecting: key)) has expired. Revive it with `lockbox change --expires`, or store "
                + "it again."
        )
    }

    var empty: Failure {
        if let count = try? lockbox.list(includingExpired: true).items.count, count > 0 {
            return Failure(
                .noSuchItem,
                "All items under the prefix \(String(reflecting: prefix)) have expired: \(count). `lockbox list --expired` shows "
                    + "them, and `lockbox change --expires` revives one."
            )
        }
        let prefixes = (try? backend.prefixes { _ in }) ?? []
        return Failure(
            .noSuchItem,
            "There are no items under the prefix \(String(reflecting: prefix)) in the store \(location.onOneLine). "
                + "Check --prefix and the store.\(Similar.question(prefix, prefixes))"
        )
    }
}

extension ItemKey {
    /// The key with its prefix, for messages.
    var text: String { "\(prefix.onOneLine) \(key.onOneLine)" }
}

/// The secret that was given to unlock the store.
final class GivenSecret {
    var isUsed = false
    /// The store as the first look has shown it, until it is unlocked.
    var status: StoreStatus?
    /// The item that is to be opened.
    var purpose: String?
}
