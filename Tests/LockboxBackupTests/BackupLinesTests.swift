import Foundation
import Testing

@testable import LockboxBackup
@_spi(Extensions) @testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// A backup's contents: JSON in lines.
@Suite struct BackupLinesTests {
    private let now = Date(timeIntervalSinceReferenceDate: 800_000_000.5)

    private func item(
        _ value: String = "1",
        _ format: ValueFormat = .json,
        key: String = "k",
        created: Date? = nil,
        label: String? = nil,
        comment: String? = nil,
        attributes: [String: String] = [:]
    ) throws -> StoredItem {
        try StoredItem(
            key: ItemKey(prefix: "p", key: key),
            value: ArchivedValue(data: Data(value.utf8), format: format),
            accessibility: .afterFirstUnlock,
            created: created ?? now,
            modified: now,
            label: label,
            comment: comment,
            searchable: attributes
        )
    }

    private func text(_ item: StoredItem) -> String {
        String(decoding: BackupLines.item(item), as: UTF8.self)
    }

    private let first = #"{"created":817491600,"lockbox-backup":1}"# + "\n"

    /// - Parameters:
    ///   - last: In the place of the right one.
    ///   - step: So many bytes come at once.
    private func read(_ lines: [String], first: String? = nil, last: String? = nil, step: Int = 7) throws
        -> [StoredItem]
    {
        let bytes = Array(([first ?? self.first] + lines).joined().utf8)
        var hash = SHA256()
        hash.add(bytes)
        let end =
            last.map { Array($0.utf8) } ?? BackupLines.last(lines.count, digest: hash.finished())
        return try read(bytes + end, step: step)
    }

    private func read(_ bytes: [UInt8], step: Int) throws -> [StoredItem] {
        var (lines, items) = (BackupLines(), [StoredItem]())
        for start in stride(from: 0, to: bytes.count, by: step) {
            try lines.add(Array(bytes[start..<min(start + step, bytes.count)])) { items.append($0) }
        }
        try lines.checkIsWhole()
        return items
    }

    private func expectBack(_ item: StoredItem, _ part: String? = nil) throws {
        let line = text(item)
        if let part { #expect(line.contains(part), "\(line)") }
        let back = try read([line])
        #expect(back == [item], "\(line)")
        #expect(back.first?.value == item.value && back.first?.attributes == item.attributes)
    }

    private func expectRefused(_ reason: String, _ body: () throws -> Void) {
        let error = #expect(throws: BackupError.self, "\(reason)") { try body() }
        #expect(error.map { "\($0)" }?.contains(reason) == true, "\(String(describing: error))")
    }

    // MARK: Items

    @Test func aLineIsAsTheDocumentSays() throws {
        let line = text(try item(#""s3cret""#, label: "L", attributes: ["b": "2", "a": "1"]))
        #expect(
            line == """
                {"attributes":{"a":"1","b":"2"},"class":"afterFirstUnlock","created":800000000.5,"format":"json",\
                "isClassChosen":true,"key":"k","label":"L","modified":800000000.5,"prefix":"p","value":"s3cret"}

                """
        )
    }

    /// The text itself, if it is a string in the form of RFC 8785.
    @Test(arguments: ["", "text", #"\"\\/"#, #"\b\t\n\f\r"#, #"\u0000\u000b\u001f"#, "\u{7F}\u{2028}é🔑"])
    func aStringIsItsText(_ string: String) throws {
        try expectBack(item("\"\(string)\""), #""value":"\#(string)"}"#)
        #expect(try !text(item("\"\(string)\"")).contains("encoding"))
    }

    /// Every other text, also what is no JSON.
    @Test(arguments: [
        "", "1", "1E400", "null", #"{"a" : [ 1,2 , {} ] }"#, #"{"a":1,"a":2}"#, "{\n\t}", #"["a:b"]"#, "[[",
        #"""#,
        #""\/""#, #""\u0009""#, #""\u000B""#, #""\u00e9""#, #""\ud83d""#, #""a" "#, "\u{FEFF}1",
    ])
    func otherTextKeepsItsBytes(_ value: String) throws {
        try expectBack(item(value), #""encoding":"text""#)
        #expect(try text(item(value)).utf8.count < 2 * value.utf8.count + 200)
    }

    @Test func everyFormat() throws {
        for number in 1...UInt8.max { try expectBack(item("v", ValueFormat(rawValue: number))) }
        for format in [ValueFormat.data, .json, .lockbox2] {
            try expectBack(item("dHdv \"\\\n\té", format), #""encoding":"text""#)
            // That text would take six times as long.
            try expectBack(item("\u{1}", format), #""encoding":"base64""#)
            let value = try ArchivedValue(data: Data([0xFF, 0]), format: format)
            try expectBack(StoredItem(key: ItemKey(prefix: "p", key: "k"), value: value, modified: now))
        }
    }

    @Test func everyText() throws {
        let odd = (0..<32).map { String(Unicode.Scalar(UInt8($0))) }.joined() + "\"\\/\u{7F}\u{2028}é🔑"
        try expectBack(item(key: "é\"\\🔑", label: odd, comment: odd, attributes: ["é \"\\": odd, "b": ""]))
        try expectBack(item(label: "", comment: ""))
    }

    @Test func theLongestItem() throws {
        let long = String(repeating: "\u{1}", count: 4096)
        let value = String(repeating: "\n", count: ArchivedValue.maximumSize)
        let attributes = Dictionary(
            uniqueKeysWithValues: (0..<16).map { ("\($0)", String(long.prefix(1000))) }
        )
        let longest = try item(value, .data, label: long, comment: long, attributes: attributes)
        #expect(BackupLines.item(longest).count <= BackupLines.maximumLength)
        // Without escapes, which take most of the time to read.
        let plain = String(repeating: "a", count: ArchivedValue.maximumSize)
        let item = try item(plain, .data, label: long, comment: long, attributes: attributes)
        #expect(try read([text(item)], step: 1 << 16) == [item])
        expectRefused("too long") {
            _ = try read(
                [String(repeating: " ", count: BackupLines.maximumLength + (2 << 16))],
                step: 1 << 16
            )
        }
    }

    @Test func anUnprovenClass() throws {
        let unproven = try item().with(ClassOrigin(.missing))
        #expect(!text(unproven).contains("isClassChosen"))
        #expect(try read([text(unproven)]).first?.attributes.origin.proof == .missing)
        #expect(try read([text(item())]).first?.attributes.origin.proof == .unlocked)
        let line = try line([(#""isClassChosen":true"#, #""isClassChosen":false"#)])
        #expect(try read([line]).first?.attributes.origin.proof == .missing)
    }

    @Test(arguments: [
        0, 0.25, -1, 1e-10, 0.1 + 0.2, -0.0, 1e300, -1e300, 1e-300, 2.6e11, 817_491_600.123_456_7,
        Date.distantPast.timeIntervalSinceReferenceDate, Date.distantFuture.timeIntervalSinceReferenceDate,
    ])
    func everyDateComesBack(_ seconds: Double) throws {
        try expectBack(item(created: Date(timeIntervalSinceReferenceDate: seconds)))
    }

    // MARK: What is refused

    private func line(_ changes: [(String, String)]) throws -> String {
        var line = text(try item())
        for (old, new) in changes {
            #expect(line.contains(old))
            line = line.replacingOccurrences(of: old, with: new)
        }
        return line
    }

    @Test(arguments: [
        (#""k""#, #""k","key":"l""#, "not well-formed"), (#""k""#, #""k","k\u0065y":"l""#, "not well-formed"),
        (#""afterFirstUnlock""#, #""whenUnlockedThisDeviceOnly""#, "class or format"),
        (#""afterFirstUnlock""#, #""best""#, "class or format"),
        (#""json""#, #""yaml""#, "class or format"),
        (#""json""#, #""256""#, "class or format"), (#""json""#, #""0""#, "class or format"),
        (#""json""#, #""2""#, "class or format"), (#""json""#, #""+2""#, "class or format"),
        (#""json""#, #""0200""#, "class or format"), (#""json""#, #""-0""#, "class or format"),
        (#""text""#, #""base64""#, "encoding"),
        (#""encoding":"text","format":"json""#, #""format":"data""#, "encoding"),
        (#""isClassChosen":true"#, #""isClassChosen":7"#, "not well-formed"),
        (#""isClassChosen":true"#, #""isClassChosen":"true""#, "not well-formed"),
        (#""text""#, #""hex""#, "another encoding"), (#""value":"1""#, #""value":1"#, "not well-formed"),
        (#""key""#, #""name""#, "has no key"), (#""prefix""#, #""x""#, "has no prefix"),
        (#""value""#, #""x""#, "has no value"), (#""created""#, #""x""#, "has no created"),
        (#""k""#, "null", "not well-formed"), (#""k""#, "7", "not well-formed"),
        (#""k""#, #""\ud83d""#, "not well-formed"),
        ("800000000.5", "true", "not well-formed"), ("800000000.5", #""1""#, "not well-formed"),
        ("800000000.5", "1e999", "not well-formed"), (#""k""#, #""""#, "not valid"),
        (#"{"class""#, #"{"attributes":{"a":"1","a":"1"},"class""#, "not well-formed"),
        (#"{"class""#, #"{"x":1,"x":1,"class""#, "not well-formed"),
        (#"{"class""#, "\u{FEFF}{\"class\"", "not well-formed"), (#""k""#, "\"\u{0}\"", "not well-formed"),
        (#"{"class""#, #"{"attributes":{"a":1},"class""#, "not well-formed"),
        (#"{"class""#, #"{"attributes":[],"class""#, "not well-formed"), ("}", "} {}", "not well-formed"),
        ("}", "", "not well-formed"), ("}", "},", "not well-formed"), ("{", "[", "not well-formed"),
    ])
    func malformedItems(_ old: String, _ new: String, _ reason: String) throws {
        let line = try line([(old, new)])
        expectRefused(reason) { _ = try read([line]) }
    }

    @Test func bytesHaveOneText() throws {
        for (text, isRight) in [("MHg=", true), ("MHh=", false), ("MHg", false), ("MHg=\\n", false)] {
            let line = try line([(#""text""#, #""base64""#), (#""value":"1""#, #""value":"\#(text)""#)])
            if isRight {
                #expect(try read([line]) == [item("0x")])
            } else {
                expectRefused("encoding") { _ = try read([line]) }
            }
        }
    }

    /// As deep as the line is long, in what does not count.
    @Test(arguments: ["[", #"{"a":"#]) func nestedMembers(_ begin: String) throws {
        let nested = String(repeating: begin, count: 100_000)
        for value in [nested, nested + "1" + String(repeating: begin == "[" ? "]" : "}", count: 100_000)] {
            let line = try line([(#""key""#, #""new":\#(value),"key""#)])
            expectRefused("not well-formed") { _ = try read([line], step: 1 << 16) }
        }
    }

    /// Members of a later version.
    @Test func unknownMembersDoNotCount() throws {
        #expect(try read([line([(#""key""#, #""new":["a:b",7],"key""#)])]) == [item()])
        #expect(try read([line([(#""key""#, "\t\"key\" ")])]) == [item()])
    }

    @Test func theFirstAndTheLastLine() throws {
        let line = text(try item())
        #expect(try read([line, line]).count == 2)
        #expect(try read([]).isEmpty)
        for (first, reason) in [
            (#"{"lockbox-backup":2}"#, "version"), (#"{"lockbox-backup":"1"}"#, "not well-formed"),
            (#"{"lockbox-backup":1.5}"#, "not well-formed"), (#"{"lockbox-backup":1e99}"#, "not well-formed"),
            (#"{"created":1}"#, "no lockbox-backup"), ("", "not well-formed"),
            ("\u{FEFF}{}", "not well-formed"),
        ] {
            expectRefused(reason) { _ = try read([line], first: first + "\n") }
        }
        let whole = Array((first + line).utf8)
        var hash = SHA256()
        hash.add(whole)
        let digest = hash.finished().hexadecimal
        func last(_ count: Int, _ digest: String) -> String {
            "{\"items\":\(count),\"sha256\":\"\(digest)\"}\n"
        }
        let right = last(1, digest)
        let wrong: [(String, String)] = [
            ("", "cut short"), (String(right.dropLast()), "cut short"),
            (last(2, digest), "items that it should"),
            (last(1, String(digest.reversed())), "items that it should"),
            ("{\"items\":1}\n", "no sha256"), (right + "\n", "after its end"),
            (right + line, "after its end"),
        ]
        for (last, reason) in wrong {
            expectRefused(reason) { _ = try read([line], last: last) }
        }
        #expect(try read([line], last: right) == [item()])
    }

    /// Also in what does not count.
    @Test(arguments: [#""value":"?""#, #""x":"?","value":"1""#, #""?":1,"value":"1""#])
    func bytesThatAreNotUTF8(_ members: String) throws {
        let text = try first + line([(#""value":"1""#, members)])
        let bytes = text.utf8.map { $0 == UInt8(ascii: "?") ? 0xFF : $0 }
        var hash = SHA256()
        hash.add(bytes)
        let last = BackupLines.last(1, digest: hash.finished())
        expectRefused("not well-formed") { _ = try read(bytes + last, step: 7) }
    }

    @Test func everyCutIsRefused() throws {
        let lines = try [first] + (1...3).map { text(try item(key: "\($0)")) }
        var hash = SHA256()
        hash.add(Array(lines.joined().utf8))
        let last = BackupLines.last(3, digest: hash.finished())
        let bytes = Array(lines.joined().utf8) + last
        #expect(try read(bytes, step: 5).count == 3)
        for end in bytes.indices {
            #expect(throws: BackupError.self, "\(end) bytes") { try read(Array(bytes[..<end]), step: 64) }
        }
        for missing in lines.indices {
            let rest = lines.indices.filter { $0 != missing }.map { lines[$0] }
            #expect(throws: BackupError.self) { try read(Array(rest.joined().utf8) + last, step: 64) }
        }
    }
}
