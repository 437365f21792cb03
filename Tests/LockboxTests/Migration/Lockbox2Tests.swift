import Foundation
import Testing

@_spi(Extensions) @testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// Lockbox 2's methods, called without their warnings.
private protocol Lockbox2 {
    func setString(_ value: String?, forKey key: String, accessibility: Accessibility?) -> Bool
    func string(forKey key: String) -> String?
    func setArray(_ value: [String]?, forKey key: String, accessibility: Accessibility?) -> Bool
    func array(forKey key: String) -> [String]?
    func setSet(_ value: Set<String>?, forKey key: String, accessibility: Accessibility?) -> Bool
    func set(forKey key: String) -> Set<String>?
    func setDictionary(_ value: [String: String]?, forKey key: String, accessibility: Accessibility?) -> Bool
    func dictionary(forKey key: String) -> [String: String]?
    func setDate(_ value: Date?, forKey key: String, accessibility: Accessibility?) -> Bool
    func date(forKey key: String) -> Date?
}

extension Lockbox: Lockbox2 {}

extension Lockbox {
    /// The item's text, byte for byte.
    fileprivate func text(_ key: String) throws -> String? {
        guard let value = try backend.value(for: itemKey(key), now: now()) else { return nil }
        #expect(value.format == .lockbox2)
        return String(decoding: value.data, as: UTF8.self)
    }

    fileprivate func write(_ bytes: some Sequence<UInt8>, _ key: String) throws {
        let value = try ArchivedValue(data: Data(bytes), format: .lockbox2)
        try backend.write(StoredItem(key: itemKey(key), value: value, modified: now()), policy: .replace)
    }
}

/// Every form of Lockbox 2's setters, with the class that its items then have.
private protocol SetterForms {
    static func all(of lockbox: Lockbox) -> [(Setters, Accessibility)]
}

private struct Setters {
    let string: (String?) -> Bool
    let array: ([String]?) -> Bool
    let set: (Set<String>?) -> Bool
    let dictionary: ([String: String]?) -> Bool
    let date: (Date?) -> Bool
}

/// Calls like an app's; through the protocol, they give no warnings.
private enum DeprecatedForms: SetterForms {
    @available(*, deprecated)
    static func all(of lockbox: Lockbox) -> [(Setters, Accessibility)] {
        let short = Setters(
            string: { lockbox.setString($0, forKey: "string") },
            array: { lockbox.setArray($0, forKey: "array") },
            set: { lockbox.setSet($0, forKey: "set") },
            dictionary: { lockbox.setDictionary($0, forKey: "dictionary") },
            date: { lockbox.setDate($0, forKey: "date") }
        )
        let long = Setters(
            string: { lockbox.setString($0, forKey: "string", accessibility: .always) },
            array: { lockbox.setArray($0, forKey: "array", accessibility: .always) },
            set: { lockbox.setSet($0, forKey: "set", accessibility: .always) },
            dictionary: { lockbox.setDictionary($0, forKey: "dictionary", accessibility: .always) },
            date: { lockbox.setDate($0, forKey: "date", accessibility: .always) }
        )
        let staticShort = Setters(
            string: { Lockbox.setString($0, forKey: "string") },
            array: { Lockbox.setArray($0, forKey: "array") },
            set: { Lockbox.setSet($0, forKey: "set") },
            dictionary: { Lockbox.setDictionary($0, forKey: "dictionary") },
            date: { Lockbox.setDate($0, forKey: "date") }
        )
        let staticLong = Setters(
            string: { Lockbox.setString($0, forKey: "string", accessibility: .afterFirstUnlock) },
            array: { Lockbox.setArray($0, forKey: "array", accessibility: .afterFirstUnlock) },
            set: { Lockbox.setSet($0, forKey: "set", accessibility: .afterFirstUnlock) },
            dictionary: {
                Lockbox.setDictionary($0, forKey: "dictionary", accessibility: .afterFirstUnlock)
            },
            date: { Lockbox.setDate($0, forKey: "date", accessibility: .afterFirstUnlock) }
        )
        return [
            (short, .whenUnlocked), (long, .always), (staticShort, .whenUnlocked),
            (staticLong, .afterFirstUnlock),
        ]
    }
}

/// The static getters.
private protocol StaticLockbox2 {
    static func string(forKey key: String) -> String?
    static func array(forKey key: String) -> [String]?
    static func set(forKey key: String) -> Set<String>?
    static func dictionary(forKey key: String) -> [String: String]?
    static func date(forKey key: String) -> Date?
}

extension Lockbox: StaticLockbox2 {}

/// Code for a process of its own, as the default is the process's.
private enum EveryForm {
    struct Unmet: Error {}

    static func expect(_ condition: Bool) throws {
        if !condition { throw Unmet() }
    }

    static func check() throws {
        let backend = InMemoryBackend()
        try Lockbox.configure(keyPrefix: "com.example.lockbox2", backend: backend)
        let lockbox = try backend.lockbox("com.example.lockbox2")
        let forms: any SetterForms.Type = DeprecatedForms.self
        for (setters, accessibility) in forms.all(of: lockbox) {
            try check(setters, accessibility, lockbox)
        }
    }

    private static func check(_ v2: Setters, _ accessibility: Accessibility, _ lockbox: Lockbox) throws {
        let date = Date(timeIntervalSinceReferenceDate: 1.5)
        try expect(v2.string("text") && v2.array(["b", "a"]) && v2.set(["b", "a"]))
        try expect(v2.dictionary(["l": "1", "k": "2"]) && v2.date(date))
        let texts = [
            "string": "text", "array": "b-|-a", "set": "a-|-b", "dictionary": "k-|-l-|-2-|-1", "date": "1.5",
        ]
        for (key, text) in texts { try expect(lockbox.text(key) == text) }
        try expect(lockbox.list().items.values.allSatisfy { $0.accessibility == accessibility })
        let getters: any StaticLockbox2.Type = Lockbox.self
        try expect(getters.string(forKey: "string") == "text")
        try expect(getters.array(forKey: "array") == ["b", "a"])
        try expect(getters.set(forKey: "set") == ["a", "b"])
        try expect(getters.dictionary(forKey: "dictionary") == ["k": "2", "l": "1"])
        try expect(getters.date(forKey: "date") == date)
        try expect(v2.string(nil) && v2.array(nil) && v2.set([]) && v2.dictionary(nil) && v2.date(nil))
        try expect(lockbox.allKeys().isEmpty)
        // A nil that is no answer removes nothing.
        try Lockbox.archiveObject(7, forKey: "number")
        do {
            try Lockbox.archiveObject(getters.string(forKey: "number"), forKey: "number")
            throw Unmet()
        } catch let error as LockboxError { try expect(error.code == .invalidKey) }
        try expect(Lockbox.unarchiveObject(forKey: "number") == 7)
        try Lockbox.removeObject(forKey: "number")
    }
}

@Suite struct Lockbox2Tests {
    private let lockbox: Lockbox
    private var v2: any Lockbox2 { lockbox }

    init() throws { lockbox = try InMemoryBackend().lockbox("com.example.lockbox2") }

    // MARK: Lockbox 2's bytes

    @Test("Promise 11: an item keeps its class and its label") func keepsWhatIsNotNamed() throws {
        try lockbox.archiveObject(
            "new form",
            forKey: "k",
            options: WriteOptions(accessibility: .alwaysThisDeviceOnly, label: "L")
        )
        #expect(v2.setString("v2", forKey: "k", accessibility: nil))
        let attributes = try #require(try lockbox.attributes(forKey: "k"))
        #expect(attributes.accessibility == .alwaysThisDeviceOnly && attributes.label == "L")
    }

    @Test(arguments: ["", "a", "-|-", "a-|-b", "\0", "Ünï 🔑", String(repeating: "x", count: 100_000)])
    func strings(_ value: String) throws {
        #expect(v2.setString(value, forKey: "k", accessibility: .always))
        #expect(try lockbox.text("k") == value)
        #expect(v2.string(forKey: "k") == value)
        #expect(try lockbox.attributes(forKey: "k")?.accessibility == .always)
    }

    @Test(
        arguments: [
            (["a"], "a"), ([""], ""), (["a", "b"], "a-|-b"), (["", ""], "-|-"), (["", "", ""], "-|--|-"),
            (["-"], "-"), (["a", "-|"], "a-|--|"), (["-|"], "-|"), (["|-"], "|-"), (["|-", "a"], "|--|-a"),
            (["a-", "-b"], "a--|--b"), (["é", "e\u{301}"], "é-|-e\u{301}"), (["\r", "\n"], "\r-|-\n"),
        ] as [([String], String)]
    )
    func arrays(_ value: [String], _ text: String) throws {
        #expect(v2.setArray(value, forKey: "k", accessibility: .whenUnlocked))
        #expect(try lockbox.text("k")?.utf8.elementsEqual(text.utf8) == true)
        #expect(v2.array(forKey: "k").map { $0.map { Array($0.utf8) } } == value.map { Array($0.utf8) })
    }

    /// Values that Lockbox 2 stored, and read back as something else.
    @Test(
        arguments: [
            ["-|-"], ["a-|-b"], ["-|-a"], ["a-|-"], ["a-|", "b"], ["a", "|-b"], ["-|", ""], ["", "|-"],
            ["a", "\u{301}b"], ["a", "\u{FE0F}"], ["a", "\u{200C}"], ["a", "\u{1F3FD}"],
        ]
    )
    func arraysThatLockbox2Corrupted(_ value: [String]) throws {
        #expect(v2.setArray(["before"], forKey: "k", accessibility: .whenUnlocked))
        #expect(!v2.setArray(value, forKey: "k", accessibility: .whenUnlocked))
        #expect(v2.array(forKey: "k") == ["before"])
        let set = Set(value + ["z"])  // the compiler of Swift 6.2 crashes if this is in the macro
        #expect(!v2.setSet(set, forKey: "set", accessibility: .whenUnlocked))
        if value.count == 2 {
            #expect(!v2.setDictionary([value[0]: value[1]], forKey: "k", accessibility: .whenUnlocked))
        }
        #expect(v2.array(forKey: "k") == ["before"])
    }

    /// The characters before which Foundation, and so Lockbox 2, does not find a delimiter.
    @Test func delimitersThatLockbox2DidNotFind() {
        // Elsewhere there are none.
        let ranges = [UInt32(0)...0x1FFFF, 0xE0000...0xE0FFF]
        for scalar in ranges.joined().compactMap(Unicode.Scalar.init) {
            let text = "a-|-\(Character(scalar))b"
            let isFound = NSString(string: text).components(separatedBy: "-|-").count == 2
            let elements = try? Lockbox2Text.array(text)
            #expect(elements == nil || isFound, "U+\(String(scalar.value, radix: 16))")
        }
    }

    @Test(arguments: [1, 2, 1000]) func setsAndDictionaries(_ count: Int) throws {
        let elements = (0..<count).map { "\($0)" }
        let set = Set(elements)
        #expect(v2.setSet(set, forKey: "set", accessibility: .whenUnlocked))
        #expect(v2.set(forKey: "set") == set)
        #expect(try lockbox.text("set") == elements.sorted().joined(separator: "-|-"))

        let dictionary = Dictionary(uniqueKeysWithValues: elements.map { ($0, "value of \($0)") })
        #expect(v2.setDictionary(dictionary, forKey: "dictionary", accessibility: .whenUnlocked))
        #expect(v2.dictionary(forKey: "dictionary") == dictionary)
        let keys = dictionary.keys.sorted()
        #expect(
            try lockbox.text("dictionary") == (keys + keys.map { dictionary[$0]! }).joined(separator: "-|-")
        )
    }

    /// Any order of elements, and of keys, is one that Lockbox 2 may have written.
    @Test func readsWhatLockbox2Wrote() throws {
        try lockbox.write("b-|-a-|-c".utf8, "k")
        #expect(v2.array(forKey: "k") == ["b", "a", "c"])
        #expect(v2.set(forKey: "k") == ["a", "b", "c"])
        #expect(v2.dictionary(forKey: "k") == nil)
        try lockbox.write("k2-|-k1-|-v2-|-v1".utf8, "k")
        #expect(v2.dictionary(forKey: "k") == ["k1": "v1", "k2": "v2"])
        try lockbox.write("-|-".utf8, "k")
        #expect(v2.dictionary(forKey: "k") == ["": ""])
        try lockbox.write("a-|-a-|-1-|-2".utf8, "k")
        #expect(v2.dictionary(forKey: "k") == nil, "a key twice")
        #expect(v2.set(forKey: "k") == nil, "an element twice")
        try lockbox.write([], "k")
        #expect(v2.string(forKey: "k") == "")
        #expect(v2.array(forKey: "k") == [""])
        #expect(v2.set(forKey: "k") == [""])
        #expect(v2.dictionary(forKey: "k") == nil)
        #expect(v2.date(forKey: "k") == nil)
        try lockbox.write("a-|-|-b".utf8, "k")
        #expect(v2.array(forKey: "k") == nil, "[a-|, b] or [a, |-b]")
        try lockbox.write([0x61, 0xFF], "k")
        #expect(v2.string(forKey: "k") == nil)
        #expect(v2.array(forKey: "k") == nil)
        #expect(v2.date(forKey: "k") == nil)
    }

    @Test(
        arguments: [
            (0, "0"), (-0.0, "-0"), (700_000_000, "700000000"), (801_234_567.890625, "801234567.890625"),
            (-978_307_200.5, "-978307200.5"), (1_700_000_000.1234567, "1700000000.1234567"),
            (0.1, "0.1"), (-62_135_596_799.999, "-62135596799.999"), (1e22, "1e+22"),
            (.leastNonzeroMagnitude, "5e-324"),
            (123_456_789.01234567, "123456789.01234567"),
        ] as [(Double, String)]
    )
    func dates(_ seconds: Double, _ text: String) throws {
        let date = Date(timeIntervalSinceReferenceDate: seconds)
        #expect(v2.setDate(date, forKey: "k", accessibility: .whenUnlocked))
        #expect(try lockbox.text("k") == text)
        #expect(v2.date(forKey: "k")?.timeIntervalSinceReferenceDate.bitPattern == seconds.bitPattern)
    }

    /// Apple's `stringValue` wrote sixteen digits, and an exponent from 1e16 on.
    @Test(
        arguments: [
            ("801234567.8906251", 801_234_567.8906251), ("1700000000.123457", 1_700_000_000.123457),
            ("-12345.5", -12345.5), ("1e+16", 1e16), ("-1e-07", -1e-7),
            ("1234567890123456", 1_234_567_890_123_456),
        ] as [(String, Double)]
    )
    func datesAsAppleWroteThem(_ text: String, _ seconds: Double) throws {
        try lockbox.write(text.utf8, "k")
        #expect(v2.date(forKey: "k")?.timeIntervalSinceReferenceDate == seconds)
    }

    @Test(arguments: [
        "", "x", "1x", " 1", "1 ", "nan", "inf", "-inf", "0x10", "+1", "1e999", "1,5", "--1", "١",
    ])
    func textsThatAreNoDates(_ text: String) throws {
        try lockbox.write(text.utf8, "k")
        #expect(v2.date(forKey: "k") == nil)
        #expect(v2.string(forKey: "k") == text)
    }

    @Test(arguments: [Double.nan, .infinity, -.infinity]) func datesThatAreNotFinite(_ seconds: Double) {
        #expect(
            v2.setDate(Date(timeIntervalSinceReferenceDate: 1), forKey: "k", accessibility: .whenUnlocked)
        )
        let date = Date(timeIntervalSinceReferenceDate: seconds)
        #expect(!v2.setDate(date, forKey: "k", accessibility: .whenUnlocked))
        #expect(v2.date(forKey: "k") == Date(timeIntervalSinceReferenceDate: 1))
    }

    // MARK: Results

    @Test func nilAndEmptyCollectionsRemove() throws {
        for remove in [
            { v2.setString(nil, forKey: "k", accessibility: .whenUnlocked) },
            { v2.setArray(nil, forKey: "k", accessibility: .whenUnlocked) },
            { v2.setArray([], forKey: "k", accessibility: .whenUnlocked) },
            { v2.setSet(nil, forKey: "k", accessibility: .whenUnlocked) },
            { v2.setSet([], forKey: "k", accessibility: .whenUnlocked) },
            { v2.setDictionary(nil, forKey: "k", accessibility: .whenUnlocked) },
            { v2.setDictionary([:], forKey: "k", accessibility: .whenUnlocked) },
            { v2.setDate(nil, forKey: "k", accessibility: .whenUnlocked) },
        ] {
            #expect(v2.setString("before", forKey: "k", accessibility: .whenUnlocked))
            #expect(remove())
            #expect(try !lockbox.containsObject(forKey: "k"))
            #expect(remove(), "there is nothing to remove, and nothing is there")
        }
        #expect(v2.string(forKey: "k") == nil)
    }

    @Test func theGettersReadWhatIsNewToo() throws {
        try lockbox.archiveObject("text", forKey: "string")
        try lockbox.archiveObject(["a-|-b"], forKey: "array")
        try lockbox.archiveObject(["a", "b"] as Set, forKey: "set")
        try lockbox.archiveObject(["k": "v"], forKey: "dictionary")
        try lockbox.archiveObject(Date(timeIntervalSinceReferenceDate: 1.5), forKey: "date")
        #expect(v2.string(forKey: "string") == "text")
        #expect(v2.array(forKey: "array") == ["a-|-b"])
        #expect(v2.set(forKey: "set") == ["a", "b"])
        #expect(v2.dictionary(forKey: "dictionary") == ["k": "v"])
        #expect(v2.date(forKey: "date") == Date(timeIntervalSinceReferenceDate: 1.5))
        #expect(v2.date(forKey: "string") == nil)
    }

    @Test func whatIsOldIsNotMistakenForNew() throws {
        #expect(v2.setString("\"text\"", forKey: "k", accessibility: .whenUnlocked))
        expectError(.typeMismatch) { try lockbox.unarchiveObject(String.self, forKey: "k") }
        expectError(.typeMismatch) { try lockbox.unarchiveObject(Data.self, forKey: "k") }
        #expect(v2.string(forKey: "k") == "\"text\"")
    }

    @Test func everyFormStoresTheSame() async {
        await #expect(processExitsWith: .success) { try EveryForm.check() }
    }

    @Test func aFailureIsFalseAndChangesNothing() throws {
        #expect(!v2.setString("x", forKey: "", accessibility: .whenUnlocked))
        #expect(v2.string(forKey: "") == nil)
        #expect(!v2.setString("x", forKey: "k", accessibility: .whenPasscodeSetThisDeviceOnly))
    }
}
