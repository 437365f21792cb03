import LockboxCore
import LockboxPlatform

/// Lockbox 2's encodings: text that does not say what it encodes.
///
/// A collection is its elements joined with `-|-`, and a dictionary is all its keys followed by all its values.
/// A date is the number of seconds since 2001 in decimal. Values that would not be read back unchanged are
/// refused when writing and when reading.
enum Lockbox2Text {
    private static let delimiter = "-|-"

    // MARK: Writing

    static func text(_ elements: [String]) throws(MigrationRefusal) -> String {
        let text = elements.joined(separator: delimiter)
        guard try array(text).elementsEqual(elements, by: { $0.utf8.elementsEqual($1.utf8) }) else {
            throw .lossy("an element contains the delimiter")
        }
        return text
    }

    static func text(_ elements: Set<String>) throws(MigrationRefusal) -> String {
        try text(elements.sorted())
    }

    static func text(_ dictionary: [String: String]) throws(MigrationRefusal) -> String {
        let pairs = dictionary.sorted { $0.key < $1.key }
        return try text(pairs.map(\.key) + pairs.map(\.value))
    }

    /// Formats the number like `NSNumber.stringValue` on Apple's systems, but with full precision.
    static func text(_ date: Date) throws(MigrationRefusal) -> String {
        let seconds = date.timeIntervalSinceReferenceDate
        guard seconds.isFinite else { throw .lossy("a date is not a finite number") }
        let text = "\(seconds)"
        return text.hasSuffix(".0") ? String(text.dropLast(2)) : text
    }

    // MARK: Reading

    static func string(_ data: Data) throws(MigrationRefusal) -> String {
        guard let text = String(validating: data, as: UTF8.self) else {
            throw .malformed(reason: "it is not UTF-8")
        }
        return text
    }

    /// An empty text is one empty element, as in Lockbox 2.
    static func array(_ text: String) throws(MigrationRefusal) -> [String] {
        let elements = text.utf8.split(separator: delimiter.utf8, omittingEmptySubsequences: false)
            .map { String(Substring($0)) }
        for element in elements.dropFirst() {
            if element.utf8.starts(with: "|-".utf8) {
                throw .lossy("two delimiters overlap, so one of them may be data")
            }
            // Foundation does not find a delimiter that forms a single character with the text after it.
            if let first = element.unicodeScalars.first, first.joinsTheCharacterBefore {
                throw .lossy("the delimiter -|- is followed by a combining character")
            }
        }
        return elements
    }

    static func set(_ text: String) throws(MigrationRefusal) -> Set<String> {
        let elements = try array(text)
        let set = Set(elements)
        guard set.count == elements.count else { throw .lossy("a set contains an element twice") }
        return set
    }

    static func dictionary(_ text: String) throws(MigrationRefusal) -> [String: String] {
        let elements = try array(text)
        guard elements.count.isMultiple(of: 2) else {
            throw .lossy("a dictionary has different numbers of keys and values")
        }
        let count = elements.count / 2
        let dictionary = Dictionary(zip(elements[..<count], elements[count...])) { first, _ in first }
        guard dictionary.count == count else { throw .lossy("a dictionary contains a key twice") }
        return dictionary
    }

    /// The whole text must be a decimal number. Lockbox 2 read any other text as the first second of 2001.
    static func date(_ text: String) throws(MigrationRefusal) -> Date {
        let digits = UInt8(ascii: "0")...UInt8(ascii: "9")
        guard let first = text.utf8.first, digits.contains(first) || first == UInt8(ascii: "-"),
            text.utf8.allSatisfy({ digits.contains($0) || "+-.e".utf8.contains($0) }),
            let seconds = Double(text), seconds.isFinite
        else { throw .lossy("a date is not a number") }
        return Date(timeIntervalSinceReferenceDate: seconds)
    }
}

extension Unicode.Scalar {
    fileprivate var joinsTheCharacterBefore: Bool {
        let marks: [Unicode.GeneralCategory] = [.nonspacingMark, .spacingMark, .enclosingMark]
        return properties.isGraphemeExtend || properties.isEmojiModifier
            || marks.contains(properties.generalCategory)
    }
}
