import Lockbox

/// An item in `--json` output. Documented: fields may be added, but never removed.
struct ItemDescription: Encodable {
    let key: String
    let accessibility: String
    let created: Date
    let modified: Date
    let expires: Date?
    let format: String
    let size: Int
    let label: String?
    let comment: String?
    let attributes: [String: String]?

    private enum CodingKeys: String, CodingKey {
        case key, created, modified, expires, format, size, label, comment, attributes
        case accessibility = "class"
    }

    init(_ key: String, _ attributes: ItemAttributes) {
        self.key = key
        accessibility = "\(attributes.accessibility)"
        created = attributes.created
        modified = attributes.modified
        expires = attributes.expires
        format = "\(attributes.format)"
        size = attributes.size
        label = attributes.label
        comment = attributes.comment
        self.attributes = attributes.searchable.isEmpty ? nil : attributes.searchable
    }
}

extension Date {
    /// The date in the local time zone.
    var local: String {
        // strftime does not support years that do not fit into an Int32.
        var time = Int(max(-1e15, min(1e15, timeIntervalSince1970.rounded(.down))))
        var parts = tm()
        localtime_r(&time, &parts)
        var text = [CChar](repeating: 0, count: 32)
        let length = strftime(&text, text.count, "%Y-%m-%d %H:%M", &parts)
        return String(decoding: text[..<length].map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}
