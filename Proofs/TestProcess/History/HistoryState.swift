import Foundation

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// The attributes of an item that Proofs/History/model.py knows: which write its value comes from, its class, whether it expires,
/// which write made it, and which call changed it last.
///
/// Calls are numbered. The number is the item's value and label, and it is in its dates, so that every attribute tells which
/// call it comes from.
struct HistoryState: CustomStringConvertible {
    var value: Int
    var accessibility: Accessibility
    var expires: Bool
    var created: Int
    var modified: Int

    var description: String {
        "\(value),\(accessibility.rawValue),\(expires ? 1 : 0),\(created),\(modified)"
    }

    init(value: Int, accessibility: Accessibility, expires: Bool) {
        self.value = value
        self.accessibility = accessibility
        self.expires = expires
        created = value
        modified = value
    }

    /// - Throws: ``Violation`` if no call can have written this.
    init(_ attributes: ItemAttributes) throws {
        let value = attributes.label.flatMap { Int($0) }
        guard let value, attributes.expires == nil || attributes.expires == HistoryTime.expiry else {
            throw Violation(description: "no call has written these attributes")
        }
        self.value = value
        accessibility = attributes.accessibility
        expires = attributes.expires != nil
        created = HistoryTime.call(attributes.created)
        modified = HistoryTime.call(attributes.modified)
    }

    /// - Throws: ``Violation`` if value and attributes are not of one write.
    init(_ item: StoredItem) throws {
        try self.init(item.attributes)
        guard try HistoryValue.call(item.value) == value, item.value.data.count == item.attributes.size else {
            throw Violation(description: "value and attributes are not of one write")
        }
    }

    func item(_ key: ItemKey, isLate: Bool) throws -> StoredItem {
        try StoredItem(
            key: key,
            value: HistoryValue.value(value),
            accessibility: accessibility,
            modified: HistoryTime.date(modified, isLate: isLate),
            expires: expires ? HistoryTime.expiry : nil,
            label: String(value)
        )
    }
}

/// Dates: early ones, before the only expiry there is, and late ones, after it.
enum HistoryTime {
    static let expiry = Date(timeIntervalSinceReferenceDate: 0)
    private static let early = -Double(1 << 31)
    private static let late = Double(1 << 29)
    private static let callsPerSecond = 1024.0

    static func date(_ call: Int, isLate: Bool) -> Date {
        Date(timeIntervalSinceReferenceDate: (isLate ? late : early) + Double(call) / callsPerSecond)
    }

    static func call(_ date: Date) -> Int {
        let seconds = date.timeIntervalSinceReferenceDate
        return Int((seconds - (seconds < 0 ? early : late)) * callsPerSecond)
    }
}

/// Values: the call's number, repeated up to a length that depends on it.
enum HistoryValue {
    static func text(_ call: Int) -> String {
        let lengths = [16, 16, 16, 200, 200, 5000]
        let word = "\(call)."
        return String(repeating: word, count: lengths[call % lengths.count] / word.utf8.count + 1)
    }

    static func value(_ call: Int) throws -> ArchivedValue {
        try ArchivedValue(data: Data(text(call).utf8), format: .data)
    }

    /// - Throws: ``Violation`` if it is not exactly what one call has written.
    static func call(_ value: ArchivedValue) throws -> Int {
        let data = value.format == .json ? value.data.dropFirst().dropLast() : value.data
        let text = String(decoding: data, as: UTF8.self)
        guard let call = text.prefix(while: { $0 != "." }).wholeNumber, text == self.text(call) else {
            throw Violation(description: "no call has written this value of \(data.count) bytes")
        }
        return call
    }
}

extension Substring {
    fileprivate var wholeNumber: Int? { Int(self) }
}
