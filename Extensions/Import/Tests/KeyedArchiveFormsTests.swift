import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxImport
@testable import LockboxStore

/// Archives in XML, and archives of values without keys.
@Suite struct KeyedArchiveFormsTests: MigrationFixture {
    let store: TestStore
    let lockbox: Lockbox

    init() throws {
        store = try TestStore()
        lockbox = try store.lockbox()
    }

    private func value(_ bytes: some Sequence<UInt8>, _ key: String = "root") throws -> PropertyValue {
        try KeyedArchive(Array(bytes)).value(forKey: key)
    }

    private func fault(_ bytes: some Sequence<UInt8>, _ key: String = "root") -> SourceError? {
        do { _ = try value(bytes, key) } catch { return error as? SourceError }
        return nil
    }

    /// An archive of a dictionary with a user's name and a number, as Apple's systems write it in XML.
    private static func xml(
        top: String = "<key>root</key><dict><key>CF$UID</key><integer>1</integer></dict>",
        number: String = "<integer>3</integer>",
        uid: String = "<dict><key>CF$UID</key><integer>4</integer></dict>"
    ) -> String {
        """
        <?xml version="1.0" encoding="UTF-8"?>
        <!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
        <plist version="1.0">
        <dict>
        	<key>$archiver</key><string>NSKeyedArchiver</string>
        	<key>$objects</key>
        	<array>
        		<string>$null</string>
        		<dict>
        			<key>$class</key><dict><key>CF$UID</key><integer>6</integer></dict>
        			<key>NS.keys</key>
        			<array>
        				<dict><key>CF$UID</key><integer>2</integer></dict>
        				<dict><key>CF$UID</key><integer>3</integer></dict>
        			</array>
        			<key>NS.objects</key>
        			<array>
        				\(uid)
        				<dict><key>CF$UID</key><integer>5</integer></dict>
        			</array>
        		</dict>
        		<string>name</string>
        		<string>visits</string>
        		<string>z&#252;rich &amp; 🔑</string>
        		\(number)
        		<dict>
        			<key>$classes</key><array><string>NSDictionary</string><string>NSObject</string></array>
        			<key>$classname</key><string>NSDictionary</string>
        		</dict>
        	</array>
        	<key>$top</key><dict>\(top)</dict>
        	<key>$version</key><integer>100000</integer>
        </dict>
        </plist>
        """
    }

    private static let user = PropertyValue.dictionary([
        PropertyValue.Pair(key: .string("name"), value: .string("zürich & 🔑")),
        PropertyValue.Pair(key: .string("visits"), value: .integer(3)),
    ])

    // MARK: XML

    @Test func anArchiveInXML() throws {
        #expect(try value(Self.xml().utf8) == Self.user)
        #expect(try value(("\u{FEFF}" + Self.xml()).utf8) == Self.user)
        let bare = Self.xml().split(separator: "\n").dropFirst(2).joined(separator: "\n")
        #expect(try value(("\n " + bare).utf8) == Self.user)
        #expect(try value(Self.xml(number: "<integer>0x3</integer>").utf8) == Self.user)
        for isBigEndian in [true, false] {
            let text = Self.xml().replacingOccurrences(of: "UTF-8", with: "UTF-16")
            let encoding = XMLEncoding.utf16(isBigEndian: isBigEndian)
            for mark in ["\u{FEFF}", ""] {
                #expect(try value(encoding.bytes(of: Array((mark + text).utf8))) == Self.user)
            }
        }
    }

    /// Each class that Foundation archives here.
    @Test func everyClassInXML() throws {
        for (object, expected) in KeyedArchiveTests.objects {
            let archiver = NSKeyedArchiver(requiringSecureCoding: false)
            archiver.outputFormat = .xml
            archiver.encode(object, forKey: "k")
            archiver.finishEncoding()
            let bytes = Array(archiver.encodedData)
            try #require(bytes.starts(with: "<?xml".utf8))
            // XML cannot have a NUL.
            if case .string(let text) = expected, text.contains("\0") { continue }
            #expect(try value(bytes, "k") == expected, "\(type(of: object))")
        }
    }

    @Test func damagedArchivesInXML() {
        let text = Array(Self.xml().utf8)
        for count in text.indices { #expect(fault(text[..<count]) != nil, "\(count) bytes") }
        for index in text.indices {
            var bytes = text
            bytes[index] ^= 1 << (index % 8)
            _ = fault(bytes)
        }
        func refusal(_ uid: String) -> SourceError? { fault(Self.xml(uid: uid).utf8) }
        let invalid = SourceError.malformed("a UID is not a number, or too large")
        for number in ["<integer>-1</integer>", "<integer>4294967296</integer>", "<string>4</string>"] {
            #expect(refusal("<dict><key>CF$UID</key>\(number)</dict>") == invalid)
        }
        #expect(
            refusal("<dict><key>CF$UID</key><integer>99</integer></dict>")
                == .malformed("an archive refers to a missing object")
        )
        #expect(refusal("<dict><key>CF$UID</key><integer>1</integer></dict>") == .tooDeep)
        let nested = String(repeating: "<array>", count: 1000) + String(repeating: "</array>", count: 1000)
        #expect(refusal(nested) == .tooDeep)
        // These cannot be read exactly.
        #expect(fault(Self.xml(number: "<real>1e999</real>").utf8) != nil)
        #expect(fault("<plist><dict><key>a</key><true/></dict></plist>".utf8) == .notAnArchive)
    }

    // MARK: Values without keys

    private func unkeyed(_ objects: Any...) -> [UInt8] {
        let archiver = NSKeyedArchiver(requiringSecureCoding: false)
        for object in objects { archiver.encode(object) }
        archiver.finishEncoding()
        return Array(archiver.encodedData)
    }

    @Test func aSingleValueWithoutAKey() throws {
        for key in ["$0", "root", "token", ""] {
            #expect(try value(unkeyed(["a", "b"]), key) == .array([.string("a"), .string("b")]))
            let xml = Self.xml(top: "<key>$0</key><dict><key>CF$UID</key><integer>1</integer></dict>")
            #expect(try value(xml.utf8, key) == Self.user)
        }
        #expect(try KeyedArchive(unkeyed("a")).keys == [])
    }

    @Test func severalValuesWithoutKeys() throws {
        let bytes = unkeyed("a", ["b"], Data([1]))
        #expect(try value(bytes, "$0") == .string("a"))
        #expect(try value(bytes, "$1") == .array([.string("b")]))
        #expect(try value(bytes, "$2") == .data(Data([1])))
        for key in ["root", "$3", "$", "$x", "$00", ""] {
            #expect(fault(bytes, key) == .noSuchTopKey(key, there: ["$0", "$1", "$2"]))
        }
    }

    /// `NSKeyedArchiver` writes a caller's own `$0` as `$$0`.
    @Test func aKeyIsNotTakenForANumber() throws {
        let archiver = NSKeyedArchiver(requiringSecureCoding: false)
        archiver.encode("keyed" as NSString, forKey: "$0")
        archiver.encode("unkeyed" as NSString)
        archiver.finishEncoding()
        #expect(try value(archiver.encodedData, "$0") == .string("keyed"))
        #expect(
            fault(KeyedArchiveTests.archive("x", key: "$0"), "root") == .noSuchTopKey("root", there: ["$0"])
        )
    }

    @Test func aRefusalNamesWhatIsThere() throws {
        let archiver = NSKeyedArchiver(requiringSecureCoding: false)
        for key in ["user", "b\n\u{1B}[2J", String(repeating: "k", count: 5000)] {
            archiver.encode("s3cret" as NSString, forKey: key)
        }
        archiver.finishEncoding()
        let source = MigrationSource.items([
            "a": archiver.encodedData, "b": Data(unkeyed("s3cret", "s3cret")), "c": Data(unkeyed("x")),
            "d": Data(Self.xml().utf8),
        ])
        let report = try lockbox.migrate(
            Migration(
                "m",
                from: source,
                .archive("a", as: String.self, topKey: "root"),
                .archive("b", as: String.self, topKey: "root"),
                .archive("c", as: String.self, topKey: "root"),
                .archive("d", as: [String: String].self, topKey: "root")
            )
        )
        let refused = report.refused.mapValues(\.description)
        let a = try #require(refused["a"])
        #expect(a.contains("\"root\"") && a.contains("\"user\"") && !a.contains("\n") && a.utf8.count < 300)
        #expect(refused["b"] == "it has no value for the key \"root\"; its keys are \"$0\", \"$1\"")
        #expect(report["c"] == .migrated)
        #expect(refused["d"] != nil, "a number is not a String")
        #expect(!report.description.contains("s3cret"))
        struct User: Codable {
            var name: String
            var visits: Int
        }
        let again = Migration("xml", from: source, .archive("d", as: User.self, topKey: "root"))
        #expect(try lockbox.migrate(again)["d"] == .migrated)
        #expect(try lockbox.unarchiveObject(User.self, forKey: "d")?.visits == 3)
    }
}
