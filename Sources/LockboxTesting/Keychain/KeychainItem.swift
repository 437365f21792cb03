import LockboxCore
import LockboxKeychain
import LockboxPlatform

/// An item of the simulated Keychain.
struct KeychainItem {
    let table: KeychainSchema
    var attributes: KeychainCalls.Attributes
    var data: Data?
    let reference: Data

    init(
        _ table: KeychainSchema,
        _ attributes: KeychainCalls.Attributes,
        _ data: Data?,
        _ reference: Data? = nil
    ) {
        self.table = table
        self.attributes = attributes
        self.data = data
        let random = Data((0..<16).map { _ in UInt8.random(in: .min ... .max) })
        self.reference = reference ?? Data(table.name.utf8) + random
    }

    /// Absent parts count as their defaults, so two items without an account have the same.
    var key: [String: KeychainValue] {
        var key = table.key.merging(attributes) { $1 }.filter { table.key[$0.key] != nil }
        key = key.mapValues(KeychainSchema.compared)
        key[KeychainName.class] = .text(table.name)
        return key
    }

    /// Whether the user must do something before it can be read.
    var isAsked: Bool { attributes[KeychainName.attrAccessControl]?.accessControl?.flags.asksUser == true }

    var accessibility: String { attributes[KeychainName.attrAccessible]?.text ?? table.accessibility }

    func matches(_ query: KeychainQuery, groups: [String]) -> Bool {
        if let reference = query.persistentRef { return reference == self.reference && isIn(groups) }
        guard table.name == query.table?.name, isIn(groups) else { return false }
        var wanted = query.attributes
        // Without a word about it, only items that are not synchronized (`SecDbQuery.c`).
        let sync = wanted.removeValue(forKey: KeychainName.attrSynchronizable) ?? .int(0)
        if sync != .text(KeychainName.synchronizableAny), sync != attributes[KeychainName.attrSynchronizable]
        {
            return false
        }
        // Neither is a column (`query_set_access_control` in `SecDbQuery.c`).
        if wanted.removeValue(forKey: KeychainName.attrAccessControl) != nil {
            wanted[KeychainName.attrAccessible] = nil
        }
        return wanted.allSatisfy { name, value in
            attributes[name].map { KeychainSchema.compared($0) == KeychainSchema.compared(value) } ?? false
        }
    }

    private func isIn(_ groups: [String]) -> Bool {
        attributes[KeychainName.attrAccessGroup]?.text.map(groups.contains) ?? false
    }

    /// What a query gets of the item; nil if it asks for nothing (`handle_result` in `SecItemDb.c`).
    func result(_ results: KeychainQuery.Results) -> KeychainCalls.Attributes? {
        if results.isEmpty { return nil }
        var result: KeychainCalls.Attributes = [:]
        // Data alone is empty if there is none. Beside other parts it is then left out.
        if results == .data { return [KeychainName.valueData: .data(data ?? Data())] }
        if results.contains(.ref) || results.contains(.attributes) { result = attributes }
        if results.contains(.ref) { result[KeychainName.class] = .text(table.name) }
        if results.contains(.data), let data, !data.isEmpty { result[KeychainName.valueData] = .data(data) }
        if results.contains(.persistentRef) { result[KeychainName.valuePersistentRef] = .data(reference) }
        return result
    }
}
