extension Lockbox {
    /// Returns the changes that any thread or process makes to the items with this prefix from now on.
    ///
    /// ```swift
    /// func show(_ lockbox: Lockbox) async throws {
    ///     let changes = try await lockbox.changes()
    ///     var token = try await lockbox.unarchiveObject(String.self, forKey: "token")
    ///     for try await change in changes where [.item("token"), .unknownItem, .everything].contains(change) {
    ///         token = try await lockbox.unarchiveObject(String.self, forKey: "token")
    ///         print(token ?? "signed out")
    ///     }
    /// }
    /// ```
    ///
    /// Subscribe before you read, so that you miss no change. This program's own changes are included. An item that
    /// expires is not a change, nor is one that is created and removed before it is noticed. Changes are merged until they
    /// are read, and their order is not kept.
    ///
    /// For a store in files, this works only on Linux, and only for changes that are made on this machine, not by
    /// another machine on a network file system. The subscription creates the store if there is none, reads the
    /// keys of all items, so that it can report the keys of removed items, and waits in a thread of its own.
    ///
    /// It ends when the task of the loop is canceled, or the sequence and its iterator are released.
    ///
    /// - Returns: A sequence for one loop.
    /// - Throws: ``LockboxError/notSupported(operation:)`` if the backend is not a ``NotifyingBackend``, or if the
    ///   system cannot report changes; ``LockboxError/storageFailure(operation:path:errno:)`` with `EMFILE` or `ENOSPC` if
    ///   the user has too many inotify instances or watches.
    public func changes() throws -> LockboxChanges {
        guard let backend = backend as? any NotifyingBackend else {
            throw LockboxError.notSupported(operation: "observing changes")
        }
        return try LockboxChanges(backend, prefix: keyPrefix)
    }

    /// Returns the changes that any thread or process makes to the items with this prefix from now on.
    ///
    /// Runs on another thread. Canceling the task does not stop it. Parameters and errors are those of the synchronous form.
    public func changes() async throws -> LockboxChanges { try await offPool { try changes() } }
}
