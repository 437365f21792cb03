import LockboxCore

/// Why bytes that another library or program wrote could not be read.
///
/// No text holds a value. Names of classes and types are there; names of items are not.
package enum SourceError: Error, Equatable {
    /// The bytes do not have the form that they must have.
    case malformed(String)
    /// More than ``PropertyValue/maximumDepth`` values inside each other, or a value that holds itself.
    case tooDeep
    /// More bytes than can be a value, or objects shared so often that they would become far more.
    case tooLarge
    /// The archive holds an instance of a class that is not read.
    case unknownClass(String)
    case notAnArchive
    /// There is no entry of that name.
    case noSuchKey
    /// Nil was archived.
    case nothing
    /// Well-formed, but nothing that can be read without guessing or loss.
    case unsupported(String)
    case notUTF8
    /// The JSON in an archive is not one of this type.
    case notDecodable(type: String)

    /// A class's name as the archive has it, cut and without what could not be printed.
    package static func unknownClass(named name: String) -> SourceError {
        let printable = name.unicodeScalars.prefix(64).map { scalar in
            scalar.isASCII && scalar.value > 0x20 && scalar.value != 0x7F ? Character(scalar) : "?"
        }
        return .unknownClass(String(printable))
    }
}

extension SourceError: CustomStringConvertible {
    package var description: String {
        switch self {
        case .malformed(let reason): "it is damaged: \(reason)"
        case .tooDeep: "its values are nested too deeply"
        case .tooLarge: "it is too large"
        case .unknownClass(let name): "it holds an instance of \(name), which is not read"
        case .notAnArchive: "it is no keyed archive"
        case .noSuchKey: "it has no such entry"
        case .nothing: "nothing is archived in it"
        case .unsupported(let reason): "it cannot be read without loss: \(reason)"
        case .notUTF8: "it is not UTF-8"
        case .notDecodable(let type): "its JSON is not that of a value of the type \(type)"
        }
    }
}

/// Hides its contents from every way of printing it.
package protocol Undescribed: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {}

extension Undescribed {
    package var description: String { "\(Self.self)" }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: [:]) }
}
