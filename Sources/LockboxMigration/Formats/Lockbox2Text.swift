import LockboxCore
import LockboxPlatform

/// Lockbox 2's encodings: text, in which nothing says what it is an encoding of.
///
/// Collections are their elements' texts with `-|-` between them; a dictionary is all its keys and then all its values; a
/// date is the decimal number of seconds since 2001. What does not read back as it was written is refused, both ways.
enum Lockbox2Text {
    private static let delimiter = "-|-"

    // MARK: Writing

    static func text(_ elements: [String]) throws(SourceError) -> String {
        let text = elements.joined(separator: delimiter)
        guard try array(text).elementsEqual(elements, by: { $0.utf8.elementsEqual($1.utf8) }) else {
            throw .unsupported("an element holds the delimiter")
        }
        return text
    }

    static func text(_ elements: Set<String>) throws(SourceError) -> String { try text(elements.sorted()) }

    static func text(_ dictionary: [String: String]) throws(SourceError) -> String {
        let pairs = dictionary.sorted { $0.key < $1.key }
        return try text(pairs.map(\.key) + pairs.map(\.value))
    }

    /// As `NSNumber.stringValue` has it on Apple's systems, but with all the digits that the date takes.
    static func text(_ date: Date) throws(SourceError) -> String {
        let seconds = date.timeIntervalSinceReferenceDate
        guard seconds.isFinite else { throw .unsupported("a date is not a finite number") }
        let text = "\(seconds)"
        return text.hasSuffix(".0") ? String(text.dropLast(2)) : text
    }

    // MARK: Reading

    static func string(_ data: Data) throws(SourceError) -> String {
        guard let text = String(validating: data, as: UTF8.self) else { throw .notUTF8 }
        return text
    }

    /// The empty text is one empty element, as Lockbox 2 read it.
    static func array(_ text: String) throws(SourceError) -> [String] {
        let elements = text.utf8.split(separator: delimiter.utf8, omittingEmptySubsequences: false)
            .map { String(Substring($0)) }
        for element in elements.dropFirst() {
            if element.utf8.starts(with: "|-".utf8) {
                throw .unsupported("two delimiters overlap, so that one of them may have been data")
            }
            // Foundation does not find a delimiter whose last character goes on in what follows.
            if let first = element.unicodeScalars.first, first.joinsTheCharacterBefore {
                throw .unsupported("a delimiter is joined to the character that follows it")
            }
        }
        return elements
    }

    static func set(_ text: String) throws(SourceError) -> Set<String> {
        let elements = try array(text)
        let set = Set(elements)
        guard set.count == elements.count else { throw .unsupported("a set has an element twice") }
        return set
    }

    static func dictionary(_ text: String) throws(SourceError) -> [String: String] {
        let elements = try array(text)
        guard elements.count.isMultiple(of: 2) else {
            throw .unsupported("a dictionary has not as many values as keys")
        }
        let count = elements.count / 2
        let dictionary = Dictionary(zip(elements[..<count], elements[count...])) { first, _ in first }
        guard dictionary.count == count else { throw .unsupported("a dictionary has a key twice") }
        return dictionary
    }

    /// Only a decimal number that is all of the text: Lockbox 2 took any other text for the year 2001.
    static func date(_ text: String) throws(SourceError) -> Date {
        let digits = UInt8(ascii: "0")...UInt8(ascii: "9")
        guard let first = text.utf8.first, digits.contains(first) || first == UInt8(ascii: "-"),
            text.utf8.allSatisfy({ digits.contains($0) || "+-.e".utf8.contains($0) }),
            let seconds = Double(text), seconds.isFinite
        else { throw .unsupported("a date is not a number") }
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
