import LockboxCore
import LockboxKeychain
import LockboxPlatform

/// macOS's old file keychain, as far as programs meet it through the four calls: passwords in one unlocked file.
/// `SecItem.cpp` decides which of the two keychains a call is about, and what becomes of two answers.
extension KeychainSimulator.State {
    struct Targets {
        let dataProtection: Bool
        let file: Bool
    }

    /// `SecItemCategorizeQuery`.
    static func targets(_ query: KeychainCalls.Attributes) -> Targets {
        if case .data(let reference)? = query[KeychainName.valuePersistentRef] {
            let isFile = isFileReference(reference)
            return Targets(dataProtection: !isFile, file: isFile && !isDataProtection(query))
        }
        return Targets(dataProtection: true, file: !isDataProtection(query))
    }

    private static func isDataProtection(_ query: KeychainCalls.Attributes) -> Bool {
        let isSynchronizable = query[KeychainName.attrSynchronizable].map {
            $0 == .bool(true) || $0 == .int(1) || $0 == .text(KeychainName.synchronizableAny)
        }
        return query[KeychainName.useDataProtectionKeychain] == .bool(true) || isSynchronizable == true
            || query[KeychainName.attrAccessControl] != nil
    }

    /// Those of the data-protection keychain have 20 bytes and begin with a class (`SecItemIsIOSPersistentReference`).
    private static func isFileReference(_ reference: Data) -> Bool {
        let name = String(decoding: reference.prefix(4), as: UTF8.self)
        return reference.count != 20 || !(KeychainSchema.tables.contains { $0.name == name })
    }

    /// Without what that keychain does not have (`SecItemCopyTranslatedAttributes`).
    private func fileAttributes(_ query: KeychainCalls.Attributes) throws(KeychainRefusal)
        -> KeychainCalls.Attributes
    {
        let absent: Set<String> = [
            KeychainName.attrAccessible, KeychainName.attrAccessControl, KeychainName.attrAccessGroup,
            KeychainName.attrSynchronizable, KeychainName.useDataProtectionKeychain,
        ]
        let passwords = [KeychainName.classGenericPassword, KeychainName.classInternetPassword]
        let name = query[KeychainName.class]?.text
        guard query[KeychainName.valuePersistentRef] != nil || name.map(passwords.contains) == true else {
            // Certificates and keys of the file keychain are objects, which these calls do not pass.
            throw KeychainRefusal(KeychainStatus.unimplemented)
        }
        return query.filter { !absent.contains($0.key) }
    }

    mutating func addToFile(_ attributes: KeychainCalls.Attributes, _ now: Date) throws(KeychainRefusal) {
        var given = try fileAttributes(attributes)
        given[KeychainName.attrCreationDate] = .date(now)
        given[KeychainName.attrModificationDate] = .date(now)
        let query = try KeychainQuery(given)
        guard query.results.isEmpty, query.persistentRef == nil, let table = query.table else {
            throw .parameter
        }
        let reference = Data((0..<24).map { _ in UInt8.random(in: 128 ... .max) })
        let item = KeychainItem(table, query.attributes, query.data, reference)
        if fileItems.contains(where: { $0.key == item.key }) {
            throw KeychainRefusal(KeychainStatus.duplicateItem)
        }
        fileItems.append(item)
    }

    /// `SecItemCopyMatching_osx`.
    func copyMatchingInFile(_ attributes: KeychainCalls.Attributes) throws(KeychainRefusal) -> [KeychainCalls
        .Attributes]
    {
        let query = try fileQuery(attributes)
        // It might have to ask the user for each of them (`errSecReturnDataUnsupported`).
        if query.limit == .max, query.results.contains(.data) { throw .parameter }
        let found = matches(query).shuffled().prefix(query.limit ?? 1)
        if found.isEmpty { throw KeychainRefusal(KeychainStatus.itemNotFound) }
        return found.compactMap { index in
            var result = fileItems[index].result(query.results)
            if query.results.contains(.attributes) {
                result?[KeychainName.class] = .text(fileItems[index].table.name)
            }
            return result
        }
    }

    /// `SecItemUpdate_osx`: as many as the limit says, which is one.
    mutating func updateFile(
        _ attributes: KeychainCalls.Attributes,
        _ changes: KeychainCalls.Attributes,
        _ now: Date
    )
        throws(KeychainRefusal)
    {
        let query = try fileQuery(attributes)
        let found = matches(query).prefix(query.limit ?? 1)
        if found.isEmpty { throw KeychainRefusal(KeychainStatus.itemNotFound) }
        for index in found {
            let changes = try KeychainQuery.changes(changes, fileItems[index].table)
            fileItems[index].attributes.merge(changes.attributes) { $1 }
            fileItems[index].attributes[KeychainName.attrModificationDate] = .date(now)
            if let data = changes.data { fileItems[index].data = data }
        }
    }

    /// `SecItemDelete_osx`: as many as the limit says, which is one.
    mutating func deleteInFile(_ attributes: KeychainCalls.Attributes) throws(KeychainRefusal) {
        let query = try fileQuery(attributes)
        let found = matches(query).prefix(query.limit ?? 1)
        if found.isEmpty { throw KeychainRefusal(KeychainStatus.itemNotFound) }
        for index in found.reversed() { fileItems.remove(at: index) }
    }

    private func fileQuery(_ attributes: KeychainCalls.Attributes) throws(KeychainRefusal) -> KeychainQuery {
        var attributes = try fileAttributes(attributes)
        attributes[KeychainName.valueData] = nil  // ignored
        guard case .data(let reference)? = attributes.removeValue(forKey: KeychainName.valuePersistentRef)
        else {
            return try KeychainQuery(attributes)
        }
        let item = fileItems.first { $0.reference == reference }
        guard let item else { throw KeychainRefusal(KeychainStatus.itemNotFound) }
        attributes[KeychainName.class] = .text(item.table.name)
        var query = try KeychainQuery(attributes)
        query.fileReference = reference
        return query
    }

    private func matches(_ query: KeychainQuery) -> [Int] {
        fileItems.indices.filter { index in
            let item = fileItems[index]
            if let reference = query.fileReference { return item.reference == reference }
            return item.table.name == query.table?.name
                && query.attributes.allSatisfy { name, value in
                    let own = item.attributes[name] ?? item.table.key[name]
                    return own.map { KeychainSchema.compared($0) == KeychainSchema.compared(value) } ?? false
                }
        }
    }
}
