import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxImport
@testable import LockboxStore

/// Files in which programs keep secrets in the clear.
protocol SourceFileFixture {}

extension SourceFileFixture {
    func file(_ text: String, _ format: SourceFile.Format) throws(SourceError) -> SourceFile {
        try SourceFile(bytes: Array(text.utf8), format: format)
    }

    /// Why the text is no such file.
    func fault(_ text: String, _ format: SourceFile.Format) -> SourceError? {
        do { _ = try file(text, format) } catch { return error }
        return nil
    }

    func value(_ text: String, _ format: SourceFile.Format, _ name: String = "A") throws
        -> PropertyValue
    {
        try file(text, format).value(forName: name)
    }

    /// The text without these entries.
    func removing(_ names: String..., from text: String, _ format: SourceFile.Format) throws -> String {
        String(decoding: try file(text, format).removing(Set(names)), as: UTF8.self)
    }

    /// A property list in XML.
    static func xml(_ entries: String) -> String {
        """
        <?xml version="1.0" encoding="UTF-8"?>
        <!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
        <plist version="1.0"><dict>\(entries)</dict></plist>
        """
    }
}

extension SourceFile.Format: CaseIterable {
    static var allCases: [Self] {
        [.propertyList, .json, .netrc] + EnvironmentDialect.allCases.map { .environment($0) }
    }
}
