import Lockbox

extension Lockbox {
    /// One of each kind of call on an item, a prefix or the store; the last one writes.
    var everyCall: [() throws -> Void] {
        [
            { _ = try self.unarchiveObject(String.self, forKey: "key") },
            { _ = try self.attributes(forKey: "key") },
            { _ = try self.allKeys() },
            { _ = try self.backend.prefixes() },
            { try self.removeObject(forKey: "key") },
            { try self.removeAllObjects() },
            { try self.removeExpired() },
            { try self.archiveObject("new", forKey: "key") },
        ]
    }
}
