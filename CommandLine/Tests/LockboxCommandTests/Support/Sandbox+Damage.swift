import Foundation
import Testing

/// Items that cannot be read.
extension Sandbox {
    enum Damage: CaseIterable {
        /// The attributes can be read, and so can the key.
        case ofTheValue
        /// Not even the key can be read.
        case ofEverything
    }

    /// Runs `store`, which makes one item, and damages that item.
    func damage(_ damage: Damage, afterStoring store: () throws -> Void) throws {
        let before = try records()
        try store()
        let added = try records().subtracting(before)
        try #require(added.count == 1)
        for record in added {
            let file = URL(filePath: "\(self.store)/items/\(record)")
            var bytes = try Data(contentsOf: file)
            switch damage {
            case .ofTheValue: bytes[bytes.count - 1] ^= 1
            case .ofEverything: bytes = Data(repeating: UInt8(ascii: "x"), count: 300)
            }
            try bytes.write(to: file)
        }
    }

    /// Damages the first item, at an offset or at its end. Returns the path of its file.
    @discardableResult
    func damageAnItem(at offset: Int? = nil) throws -> String {
        let file = URL(filePath: "\(store)/items/\(try #require(records().min()))")
        var bytes = try Data(contentsOf: file)
        bytes[offset ?? bytes.count - 1] ^= 1
        try bytes.write(to: file)
        return file.path
    }

    /// The bytes of every item.
    func itemFiles() throws -> Set<Data> {
        try Set(records().map { try Data(contentsOf: URL(filePath: "\(store)/items/\($0)")) })
    }

    private func records() throws -> Set<String> {
        let items = "\(store)/items"
        guard FileManager.default.fileExists(atPath: items) else { return [] }
        let all = try FileManager.default.subpathsOfDirectory(atPath: items)
        return Set(all.filter { $0.contains("/") && !$0.hasSuffix("/lock") })
    }
}
