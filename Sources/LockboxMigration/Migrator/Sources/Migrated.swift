import LockboxCore

struct Migrated<Value: Codable & Sendable>: MigratedValue {
    let value: Value

    func archived(by lockbox: Lockbox, key: String) throws -> ArchivedValue {
        // The old value is worth more than a new one that cannot be read back.
        guard let archived = try lockbox.archive(value, key), equals(archived, of: lockbox) else {
            throw MigrationRefusal.notStorable(reason: "reading it back would return another value")
        }
        return archived
    }

    func equals(_ archived: ArchivedValue, of lockbox: Lockbox) -> Bool {
        guard let other = try? lockbox.unarchive(Value.self, archived, ""),
            let own = try? CanonicalEncoder.text(of: value),
            let others = try? CanonicalEncoder.text(of: other)
        else { return false }
        return own.utf8.elementsEqual(others.utf8)
    }
}
