import Foundation
@_spi(Extensions) public import Lockbox
@_spi(Extensions) import LockboxImport

/// The persistent entries of `UserDefaults`. Registered defaults and process arguments are left out, because
/// they cannot be removed.
struct DefaultsItems: SourceItems {
    private let defaults: UserDefaults
    private let domain: String

    init(suiteName: String?) throws {
        let defaults = suiteName.map { UserDefaults(suiteName: $0) } ?? UserDefaults.standard
        guard let defaults else {
            throw LockboxError.storageFailure(operation: "open", path: "UserDefaults", errno: EINVAL)
        }
        (self.defaults, domain) = (defaults, suiteName ?? Self.standardDomain)
        // Foundation on Linux identifies the standard domain by the address of its name, and keeps the first
        // domain created under that name. If it is requested by name first, that is a domain for another file,
        // kCFPreferencesCurrentApplication.plist, which the app's own calls then use. Reading any key through
        // the object creates the right one. The key is empty, because a process argument could answer any
        // other.
        _ = defaults.object(forKey: "")
        readAnew()
    }

    /// Reads what other processes have written since this process read the file.
    private func readAnew() {
        // If this fails, changes stay in memory, and are read from there.
        defaults.synchronize()
    }

    private var entries: [String: Any] { defaults.persistentDomain(forName: domain) ?? [:] }

    func keys(unreadable: (UnreadableItem) throws -> Void) -> [String] { entries.keys.sorted() }

    /// One key is looked up faster than all entries are listed.
    func holds(_ key: String) -> Bool { defaults.object(forKey: key) != nil && entries[key] != nil }

    func item(forKey key: String) throws -> SourceItem? {
        guard let object = entries[key] else { return nil }
        return SourceItem(.typed(try PropertyValue(object: object, depth: 0)))
    }

    func remove(_ items: [String: SourceItem]) throws -> Set<String> {
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
        // An entry that can no longer be read has changed.
        do { return try self.item(forKey: key).map { $0.value == item.value } ?? true } catch { return false }
    }
}

extension PropertyValue {
    /// Converts an object of a property list.
    init(object: Any, depth: Int) throws(MigrationRefusal) {
        guard depth < Self.maximumDepth else { throw .malformed(reason: "its values are nested too deeply") }
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
            // Sorted, because the order may differ each time.
            var entries: [Pair] = []
            for (key, object) in value.sorted(by: { $0.key < $1.key }) {
                entries.append(
                    Pair(key: .string(key), value: try PropertyValue(object: object, depth: depth + 1))
                )
            }
            self = .dictionary(entries)
        default: throw .unknownClass("\(type(of: object))")
        }
    }

    /// On some systems, `NSNumber` does not distinguish booleans from the numbers 0 and 1.
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

extension MigrationSource {
    /// The persistent entries of `UserDefaults`, which record their types. Registered defaults are not
    /// included.
    ///
    /// - Parameter suiteName: The name as in `UserDefaults(suiteName:)`. If `nil`, the standard defaults.
    public static func userDefaults(suiteName: String? = nil) -> MigrationSource {
        MigrationSource { _ in try DefaultsItems(suiteName: suiteName) }
    }
}
