import LockboxCore

/// Uses the keys that the user has unlocked for every process.
extension KeyStore {
    /// Returns the keybag with those keys, unless all keys are open anyway. Waits for no other process.
    func withUserUnlock(_ own: OpenedKeybag) throws -> OpenedKeybag {
        if own.keyring.isComplete { return own }
        var seen: [UserUnlock.Found] = []
        while true {
            var (found, opened): ([UserUnlock.Found], OpenedKeybag?) = ([], nil)
            for record in userUnlock.find(for: own.keyring) {
                found.append(record)
                opened = try open(record, own)
                if opened != nil { break }
            }
            // While another process rewrites the keybag, it replaces the records too, and the best one may have
            // been missed.
            if let opened, found.count == 1 || opened.keyring.isComplete { return opened }
            if found == seen {
                if opened == nil { forgetUserKeys() }
                return opened ?? own
            }
            seen = found
        }
    }

    /// Returns nil if the record opens nothing.
    private func open(_ record: UserUnlock.Found, _ own: OpenedKeybag) throws -> OpenedKeybag? {
        if let known = known(record, own.keyring) { return known.opened }
        // A new record may belong to a new keybag.
        let own = try self.own()
        switch try faults(of: Self.keybagRecord, { try userUnlock.open(own, record) }) {
        case .opened(let opened, let deadline):
            remember(opened)
            keep(.init(record: record, opened: opened, deadline: deadline), own.keyring)
            return opened
        case .invalid:
            keep(.init(record: record, opened: nil), own.keyring)
            return nil
        case .unread: return nil
        }
    }

    /// Wipes the keys of a record whose time is over.
    private func known(_ record: UserUnlock.Found, _ own: Keyring) -> (opened: OpenedKeybag?, Void)? {
        userRecords.withLock { records in
            guard records?.own === own else { return nil }
            records?.outcomes.removeAll { UserUnlock.isOver($0.deadline) }
            return records?.outcomes.first { $0.record == record }.map { ($0.opened, ()) }
        }
    }

    private func keep(_ outcome: UserRecords.Outcome, _ own: Keyring) {
        userRecords.withLock { records in
            var new = records.flatMap { $0.own === own ? $0 : nil } ?? UserRecords(own: own)
            // Wipes the keys of the record used before.
            if outcome.opened != nil { new.outcomes.removeAll { $0.opened != nil } }
            new.outcomes.append(outcome)
            records = new
        }
    }

    func forgetUserKeys() {
        userRecords.withLock { $0?.outcomes.removeAll { $0.opened != nil } }
    }
}
