import LockboxCore

/// What the records in the kernel were worth for a keyring. As long as they are the same, so is that.
struct UserRecords {
    let own: Keyring
    /// Nil for a record that opens nothing: of another passcode, or damaged.
    var outcomes: [(record: UserUnlock.Found, opened: OpenedKeybag?)] = []
}

/// With the keys that the user has unlocked for every process.
extension KeyStore {
    /// The keybag with those keys, if not all are open anyway. Waits for nobody.
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
            // Who rewrites the keybag puts other records there: what opens most may have been missed while they changed.
            if let opened, found.count == 1 || opened.keyring.isComplete { return opened }
            if found == seen {
                if opened == nil { forgetUserKeys() }
                return opened ?? own
            }
            seen = found
        }
    }

    /// Nil if the record opens nothing.
    private func open(_ record: UserUnlock.Found, _ own: OpenedKeybag) throws -> OpenedKeybag? {
        if let known = known(record, own.keyring) { return known.opened }
        // What is new in the kernel may go with a new keybag.
        let own = try self.own()
        switch try faults(of: Self.keybagRecord, { try userUnlock.open(own, record, device: device.read()) })
        {
        case .opened(let opened):
            remember(record, opened, own.keyring)
            return opened
        case .invalid:
            remember(record, nil, own.keyring)
            return nil
        case .unread: return nil
        }
    }

    private func known(_ record: UserUnlock.Found, _ own: Keyring) -> (opened: OpenedKeybag?, Void)? {
        userRecords.withLock { records in
            guard let records, records.own === own else { return nil }
            return records.outcomes.first { $0.record == record }.map { ($0.opened, ()) }
        }
    }

    private func remember(_ record: UserUnlock.Found, _ opened: OpenedKeybag?, _ own: Keyring) {
        userRecords.withLock { records in
            var new = records.flatMap { $0.own === own ? $0 : nil } ?? UserRecords(own: own)
            // The keys of a record that is not used any more are to be wiped.
            if opened != nil { new.outcomes.removeAll { $0.opened != nil } }
            new.outcomes.append((record, opened))
            records = new
        }
    }

    func forgetUserKeys() {
        userRecords.withLock { $0?.outcomes.removeAll { $0.opened != nil } }
    }
}
