import Lockbox

/// A migration described by a JSON file.
struct Manifest: Decodable {
    private let name: String
    private let source: Source?
    private let keepsOldItems: Bool?
    private let items: [Item]

    private enum CodingKeys: String, CodingKey { case name, source, keepsOldItems, items }

    /// Exactly one of these is set, or none for the store's own items.
    private struct Source: Decodable {
        let propertyList: String?
        let json: String?
        let environmentFile: String?
        let netrc: String?
        let userDefaults: String?

        enum CodingKeys: String, CodingKey { case propertyList, json, environmentFile, netrc, userDefaults }
    }

    private struct Item: Decodable {
        let key: String
        let type: Kind
        let to: String?
        let itemClass: String?
        let topKey: String?

        enum CodingKeys: String, CodingKey {
            case key, type, to, topKey
            case itemClass = "class"
        }
    }

    private enum Kind: String, Decodable, CaseIterable {
        case string, data, array, set, dictionary, date, value, json, archive, strongbox
    }

    init(path: String) throws {
        var data = try Input.file(path, name: "The manifest \(path.onOneLine)")
        if data.starts(with: "\u{FEFF}".utf8) { data = Data(data.dropFirst("\u{FEFF}".utf8.count)) }
        do {
            guard JSONValue.isStrict(data) else { throw Failure(.usage, "it is not JSON.") }
            let decoder = JSONDecoder()
            self = try decoder.decode(Manifest.self, from: data)
            try Self.checkMembers(decoder.decode(JSONValue.self, from: data))
        } catch {
            let reason = (error as? Failure)?.message ?? Self.reason(error)
            throw Failure(.usage, "The manifest \(path.onOneLine) is invalid: \(reason)")
        }
    }

    /// A misspelled member must not be ignored silently.
    private static func checkMembers(_ manifest: JSONValue) throws {
        guard case .object(let members) = manifest else { return }
        try check(members.keys, CodingKeys.self, "the top level")
        if case .object(let source)? = members["source"] {
            try check(source.keys, Source.CodingKeys.self, "source")
        }
        guard case .array(let items)? = members["items"] else { return }
        for (number, item) in items.enumerated() {
            if case .object(let item) = item {
                try check(item.keys, Item.CodingKeys.self, "items[\(number)]")
            }
        }
    }

    private static func check<Key: CodingKey>(_ names: some Sequence<String>, _: Key.Type, _ place: String)
        throws
    {
        if let name = names.sorted().first(where: { Key(stringValue: $0) == nil }) {
            throw Failure(.usage, "\(place) has an unknown member \(name.onOneLine).")
        }
    }

    func migration() throws -> Migration {
        try Migration(
            name,
            from: migrationSource(),
            items: items.map(Self.item),
            keepsOldItems: keepsOldItems ?? false
        )
    }

    private func migrationSource() throws -> MigrationSource {
        guard let source else { return .store }
        let sources: [MigrationSource] = [
            source.propertyList.map(MigrationSource.propertyList(at:)),
            source.json.map(MigrationSource.json(at:)),
            source.environmentFile.map(MigrationSource.environmentFile(at:)),
            source.netrc.map(MigrationSource.netrc(at:)),
            try source.userDefaults.map(MigrationSource.otherDefaults(suiteName:)),
        ].compactMap(\.self)
        guard let first = sources.first, sources.count == 1 else {
            throw Failure(
                .usage,
                "The manifest's source must be one of propertyList, json, environmentFile, netrc and userDefaults, or left out."
            )
        }
        return first
    }

    private static func item(_ item: Item) throws -> Migration.Item {
        let accessibility = try item.itemClass.map { name in
            guard let itemClass = ItemClass(rawValue: name) else {
                throw Failure(.usage, "The manifest has an unknown class \(name.onOneLine).")
            }
            return itemClass.accessibility
        }
        let (key, to) = (item.key, item.to)
        switch item.type {
        case .string: return .string(key, to: to, accessibility: accessibility)
        case .data: return .data(key, to: to, accessibility: accessibility)
        case .array: return .array(key, to: to, accessibility: accessibility)
        case .set: return .set(key, to: to, accessibility: accessibility)
        case .dictionary: return .dictionary(key, to: to, accessibility: accessibility)
        case .date: return .date(key, to: to, accessibility: accessibility)
        case .value: return .value(key, as: JSONValue.self, to: to, accessibility: accessibility)
        case .json: return .json(key, as: JSONValue.self, to: to, accessibility: accessibility)
        case .strongbox: return .strongbox(key, as: JSONValue.self, to: to, accessibility: accessibility)
        case .archive:
            return .archive(
                key,
                as: JSONValue.self,
                topKey: item.topKey,
                to: to,
                accessibility: accessibility
            )
        }
    }

    private static func reason(_ error: any Error) -> String {
        func path(_ context: DecodingError.Context) -> String {
            let path = context.codingPath.map { $0.intValue.map { "[\($0)]" } ?? ".\($0.stringValue)" }
                .joined()
            return path.isEmpty ? "the top level" : String(path.drop { $0 == "." }).onOneLine
        }
        switch error as? DecodingError {
        case .keyNotFound(let key, let context)?: return "there is no \(key.stringValue) in \(path(context))."
        case .typeMismatch(_, let context)?, .valueNotFound(_, let context)?:
            return "\(path(context)) has the wrong type."
        case .dataCorrupted(let context)? where !context.codingPath.isEmpty:
            return "\(path(context)) is not one of \(Kind.allCases.map(\.rawValue).joined(separator: ", "))."
        default: return "it is not JSON."
        }
    }
}
