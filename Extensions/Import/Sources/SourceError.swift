import Lockbox

/// An error in data that another library or program has written.
///
/// The texts contain names of classes and types and the top-level keys of archives, but neither values nor other
/// names of items.
enum SourceError: Error, Equatable {
    /// The bytes are malformed.
    case malformed(String)
    /// More than ``PropertyValue/maximumDepth`` nested values, or a value that contains itself.
    case tooDeep
    /// More bytes than a value can have, or shared objects that would expand to far more.
    case tooLarge
    /// The archive contains an instance of an unsupported class.
    case unknownClass(String)
    case notAnArchive
    /// There is no entry with this name.
    case noSuchKey
    /// The archive has no value for a key. It has values for other keys.
    case noSuchTopKey(String, there: [String])
    /// The archived value is nil.
    case nothing
    /// The data is well-formed, but cannot be read without guessing or loss.
    case unsupported(String)
    case notUTF8
    /// The data cannot be decoded as this type.
    case notDecodable(type: String)

    /// Returns the error for a class, with its name shortened and unprintable characters replaced.
    static func unknownClass(named name: String) -> SourceError {
        let printable = name.unicodeScalars.prefix(64).map { scalar in
            scalar.isASCII && scalar.value > 0x20 && scalar.value != 0x7F ? Character(scalar) : "?"
        }
        return .unknownClass(String(printable))
    }

    /// Returns the error for a key that an archive does not have, with the first of those that it has, shortened.
    static func noSuchTopKey(_ key: String, among keys: [String]) -> SourceError {
        .noSuchTopKey(key, there: keys.sorted().prefix(8).map { String($0.prefix(64)) })
    }
}

extension SourceError: CustomStringConvertible {
    var description: String {
        switch self {
        case .malformed(let reason): reason
        case .tooDeep: "its values are nested too deeply"
        case .tooLarge: "it is too large"
        case .unknownClass(let name): "it contains an instance of \(name), which is not supported"
        case .notAnArchive: "it is not a keyed archive"
        case .noSuchKey: "it has no such entry"
        case .noSuchTopKey(let key, let there):
            "it has no value for the key \(String(reflecting: key)); its keys are "
                + (there.isEmpty ? "none" : there.map { String(reflecting: $0) }.joined(separator: ", "))
        case .nothing: "nothing is archived in it"
        case .unsupported(let reason): "it cannot be read without loss: \(reason)"
        case .notUTF8: "it is not UTF-8"
        case .notDecodable(let type): "it cannot be decoded as \(type)"
        }
    }
}

/// Hides its contents from every way of printing it.
protocol Unprinted: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {}

extension Unprinted {
    /// The name of the type.
    public var description: String { "\(Self.self)" }
    /// The same as `description`.
    public var debugDescription: String { description }
    /// Keeps `dump(_:)` from showing the contents.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}

extension MigrationRefusal {
    init(_ error: SourceError) {
        switch error {
        case .unknownClass(let name): self = .unknownClass(name)
        case .unsupported: self = .ambiguous(reason: error.description)
        case .notDecodable(let type): self = .wrongType(expected: type)
        default: self = .malformed(reason: error.description)
        }
    }
}

/// Returns what a reader returns, or nil if nothing is archived. The migration refuses what the reader refuses.
func reading<Value>(_ read: () throws -> Value) throws -> Value? {
    do { return try read() } catch SourceError.nothing {
        return nil
    } catch let error as SourceError {
        throw MigrationRefusal(error)
    }
}
