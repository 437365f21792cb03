import LockboxCore
import LockboxKeychain
import LockboxPlatform

extension KeychainSimulator.State {
    /// An access group that is named must be one of the program's (`SecEntitlementErrorForExplicitAccessGroup` in
    /// `SecItemServer.c`).
    func checkGroup(_ query: KeychainQuery) throws(KeychainRefusal) {
        guard let group = query.attributes[KeychainName.attrAccessGroup]?.text else { return }
        if !accessGroups.contains(group) { throw KeychainRefusal(KeychainStatus.missingEntitlement) }
    }

    /// `SecServerItemAdd` in `SecItemServer.c`, `s3dl_query_add` in `SecItemDb.c`.
    mutating func add(_ query: KeychainQuery, _ now: Date) throws(KeychainRefusal) {
        // Results need somewhere to be put, which `KeychainCalls.add` does not give. With a match the source reports
        // success and stores nothing. An identity is added by reference, in two parts.
        guard query.results.isEmpty, !query.hasMatch, query.persistentRef == nil, let table = query.table,
            query.interaction != .skips,
            query.attributes[KeychainName.attrSynchronizable] != .text(KeychainName.synchronizableAny)
        else { throw .parameter }
        var attributes = table.key.merging(query.attributes) { $1 }
        if query.attributes[KeychainName.attrAccessGroup] == nil {
            attributes[KeychainName.attrAccessGroup] = .text(accessGroups[0])
        }
        attributes[KeychainName.attrAccessible] =
            query.attributes[KeychainName.attrAccessible] ?? .text(table.accessibility)
        // Dates that were given are overwritten (`query_pre_add` in `SecDbQuery.c`).
        attributes[KeychainName.attrCreationDate] = .date(now)
        attributes[KeychainName.attrModificationDate] = .date(now)
        let item = KeychainItem(table, attributes, query.data)
        try checkClass(item)
        let key = item.key
        if items.contains(where: { $0.key == key }) { throw KeychainRefusal(KeychainStatus.duplicateItem) }
        items.append(item)
    }

    /// `SecServerItemCopyMatching` in `SecItemServer.c`, `s3dl_query_row` in `SecItemDb.c`.
    func copyMatching(_ query: KeychainQuery) throws(KeychainRefusal) -> [KeychainCalls.Attributes] {
        if query.data != nil { throw .parameter }  // values cannot be searched for
        if query.isIdentity { return try identities(query) }
        // There is no ORDER BY.
        var found = items.filter { $0.matches(query, groups: accessGroups) }.shuffled()
        // A locked item is one before anybody could be asked for it (`ks_decrypt_data` in `SecDbKeychainItem.m`).
        if query.interaction == .skips { found.removeAll { $0.isAsked && !isLocked($0) } }
        found = Array(found.prefix(query.limit ?? 1))
        if found.isEmpty { throw KeychainRefusal(KeychainStatus.itemNotFound) }
        try checkReadable(found, query)
        return found.compactMap { $0.result(query.results) }
    }

    /// `s3dl_query_update` in `SecItemDb.c`.
    mutating func update(_ query: KeychainQuery, _ changes: KeychainCalls.Attributes, _ now: Date)
        throws(KeychainRefusal)
    {
        guard !query.hasMatch, query.results.isEmpty, query.data == nil, let table = query.table,
            query.interaction != .skips
        else { throw .parameter }
        let changes = try KeychainQuery.changes(changes, table)
        try checkGroup(changes)
        let matching = items.indices.filter { items[$0].matches(query, groups: accessGroups) }
        if matching.isEmpty { throw KeychainRefusal(KeychainStatus.itemNotFound) }
        // Items are decrypted, whatever is to change.
        try checkReadable(matching.map { items[$0] }, query)
        for index in matching {
            // The source does it, and replaces the access control by one that asks nobody.
            if items[index].isAsked, changes.attributes[KeychainName.attrAccessible] != nil,
                changes.attributes[KeychainName.attrAccessControl] == nil
            {
                throw .parameter
            }
            items[index].attributes.merge(changes.attributes) { $1 }
            items[index].attributes[KeychainName.attrModificationDate] = .date(now)
            if let data = changes.data { items[index].data = data }
            try checkClass(items[index])
            let key = items[index].key
            if items.indices.contains(where: { $0 != index && items[$0].key == key }) {
                throw KeychainRefusal(KeychainStatus.duplicateItem)
            }
        }
    }

    /// `SecServerItemDelete` in `SecItemServer.c`, `s3dl_query_delete` in `SecItemDb.c`: locked items go too, and those that
    /// need the user (`kAKSKeyOpDelete` in `SecAccessControl.m`).
    mutating func delete(_ query: KeychainQuery) throws(KeychainRefusal) {
        guard !query.hasMatch, query.data == nil, query.table != nil, query.interaction != .skips else {
            throw .parameter
        }
        let count = items.count
        items.removeAll { $0.matches(query, groups: accessGroups) }
        if items.count == count { throw KeychainRefusal(KeychainStatus.itemNotFound) }
    }

    /// An identity is a private key and a certificate with the same public key's digest (`SecDbAppendWhereClause` in
    /// `SecItemDb.c`).
    private func identities(_ query: KeychainQuery) throws(KeychainRefusal) -> [KeychainCalls.Attributes] {
        let mine = items.filter {
            $0.attributes[KeychainName.attrAccessGroup]?.text.map(accessGroups.contains) ?? false
        }
        var found: [KeychainCalls.Attributes] = []
        for key in mine.shuffled()
        where key.table.name == KeychainName.classKey && key.attributes["priv"] == .int(1) {
            for certificate in mine.shuffled() where certificate.table.name == KeychainName.classCertificate {
                guard let digest = key.attributes["klbl"], digest == certificate.attributes["pkhh"] else {
                    continue
                }
                let attributes = key.attributes.merging(certificate.attributes) { $1 }
                guard query.attributes.allSatisfy({ attributes[$0] == $1 }) else { continue }
                try checkReadable([key], query)
                found.append(attributes)
            }
        }
        if found.isEmpty { throw KeychainRefusal(KeychainStatus.itemNotFound) }
        return query.results.contains(.attributes) ? Array(found.prefix(query.limit ?? 1)) : []
    }

    private func isLocked(_ item: KeychainItem) -> Bool {
        isLocked && item.accessibility.hasPrefix("ak")
            || isBeforeFirstUnlock && item.accessibility.hasPrefix("ck")
    }

    /// A class that needs a passcode, and a locked one (`SecDbKeychainItem.m`).
    private func checkClass(_ item: KeychainItem) throws(KeychainRefusal) {
        guard KeychainSchema.accessibilities.contains(item.accessibility) else { throw .parameter }
        if item.accessibility == "akpu", !hasPasscode {
            throw KeychainRefusal(KeychainStatus.authenticationFailed)
        }
        if isLocked(item) { throw KeychainRefusal(KeychainStatus.interactionNotAllowed) }
    }

    /// One item that is locked, with its attributes (`SecDbKeychainMetadataKeyStore.m`), or that the user does not confirm
    /// makes a whole query fail, whatever it asks for (`ks_decrypt_data` in `SecDbKeychainItem.m`).
    private func checkReadable(_ items: [KeychainItem], _ query: KeychainQuery) throws(KeychainRefusal) {
        if items.contains(where: isLocked) { throw KeychainRefusal(KeychainStatus.interactionNotAllowed) }
        guard items.contains(where: \.isAsked) else { return }
        if query.interaction == .fails { throw KeychainRefusal(KeychainStatus.interactionNotAllowed) }
        promptCount.withLock { $0 += 1 }
        switch user {
        case .confirms: break
        case .cancels: throw KeychainRefusal(KeychainStatus.userCanceled)
        case .isNotRecognized: throw KeychainRefusal(KeychainStatus.authenticationFailed)
        }
    }
}
