import Foundation
import LockboxCore
package import LockboxMigration

/// Entries of `UserDefaults`, as far as they are stored: what is registered, or was given to this process alone, could
/// not be removed.
package struct DefaultsItems: SourceItems {
    private let defaults: UserDefaults
    private let domain: String

    init(suiteName: String?) throws {
        let defaults = suiteName.map { UserDefaults(suiteName: $0) } ?? UserDefaults.standard
        guard let defaults else {
            throw LockboxError.storageFailure(operation: "open", path: "UserDefaults", errno: EINVAL)
        }
        (self.defaults, domain) = (defaults, suiteName ?? Self.standardDomain)
        // Foundation on Linux knows the standard domain by the address of its name, and keeps the first domain that is made
        // under that name. Asked for by name, it is one of another file, kCFPreferencesCurrentApplication.plist, which the
        // app's own calls use from then on. A read through the object makes the right one; no argument of the process, which
        // would answer it, has an empty key.
        _ = defaults.object(forKey: "")
        readAnew()
    }

    /// Takes what other processes have written since this one has read the file.
    private func readAnew() {
        // What it could not write stays in memory, and is looked at as it is there.
        defaults.synchronize()
    }

    private var entries: [String: Any] { defaults.persistentDomain(forName: domain) ?? [:] }

    package func keys() -> [String] { entries.keys.sorted() }

    package func item(forKey key: String) throws -> SourceItem? {
        guard let object = entries[key] else { return nil }
        return SourceItem(.property(try PropertyValue(object: object, depth: 0)))
    }

    package func remove(_ items: [String: SourceItem]) throws -> Set<String> {
        readAnew()
        var changed: Set<String> = []
        for (key, item) in items {
            if isUnchanged(item, key) { defaults.removeObject(forKey: key) } else { changed.insert(key) }
        }
        guard defaults.synchronize() else {
            throw LockboxError.storageFailure(operation: "synchronize", path: "UserDefaults", errno: EIO)
        }
        return changed
    }

    private func isUnchanged(_ item: SourceItem, _ key: String) -> Bool {
        // What cannot be read now is something else now.
        do { return try self.item(forKey: key).map { $0.value == item.value } ?? true } catch { return false }
    }
}

extension PropertyValue {
    /// Of an object as property lists have them.
    init(object: Any, depth: Int) throws(SourceError) {
        guard depth < Self.maximumDepth else { throw .tooDeep }
        switch object {
        case let value as String: self = .string(value)
        case let value as Data: self = .data(value)
        case let value as Date: self = .date(value)
        case let value as URL: self = .url(value)
        case let value as NSNumber: self = .init(number: value)
        case let value as [Any]:
            var elements: [PropertyValue] = []
            for element in value { elements.append(try PropertyValue(object: element, depth: depth + 1)) }
            self = .array(elements)
        case let value as [String: Any]:
            // Sorted, as each reading may have another order.
            let entries = value.sorted { $0.key < $1.key }
            var values: [PropertyValue] = []
            for entry in entries { values.append(try PropertyValue(object: entry.value, depth: depth + 1)) }
            self = try .dictionary(keys: entries.map { .string($0.key) }, values: values)
        default: throw .unknownClass(named: "\(type(of: object))")
        }
    }

    /// `NSNumber` does not keep a boolean apart from the numbers 0 and 1 on every system.
    private init(number: NSNumber) {
        if number.doubleValue == 0, number.doubleValue.sign == .minus {
            self = .real(-0.0)
        } else if number == 0 || number == 1 {
            self = .booleanOrNumber(number.boolValue)
        } else if number.doubleValue != Double(number.int64Value),
            number.doubleValue != Double(number.uint64Value)
        {
            self = .real(number.doubleValue)
        } else if number.doubleValue < 0 || number.uint64Value <= UInt64(Int64.max) {
            self = .integer(number.int64Value)
        } else {
            self = .unsigned(number.uint64Value)
        }
    }
}
