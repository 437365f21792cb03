import Lockbox

/// Completes keys and prefixes in a shell: from what is there, without a passcode and without a question. Keys can be
/// read while the store is locked.
enum Keys {
    static let keys: @Sendable ([String], Int, String) -> [String] = { words, _, prefix in
        guard let store = try? store(words), let keys = try? store.lockbox.allKeys() else { return [] }
        return candidates(keys, prefix)
    }

    static let prefixes: @Sendable ([String], Int, String) -> [String] = { words, _, prefix in
        guard let prefixes = try? store(words).backend.prefixes() else { return [] }
        return candidates(prefixes, prefix)
    }

    /// Those that the shell takes as they are. A key may be anything, and come from somebody else.
    private static func candidates(_ all: Set<String>, _ prefix: String) -> [String] {
        let words = all.filter { $0.hasPrefix(prefix) && $0.onOneLine == $0 }.sorted()
        switch Environment["SAP_SHELL"] {
        case "fish": return words
        // There a colon ends the word and begins its description.
        case "zsh": return words.map { $0.replacing("\\", with: "\\\\").replacing(":", with: "\\:") }
        // bash evaluates them: $(command) in a key would be run.
        default: return words.filter { $0.unicodeScalars.allSatisfy(isPlain) }
        }
    }

    /// Letters, digits, and those signs that no shell does anything with.
    private static func isPlain(_ scalar: Unicode.Scalar) -> Bool {
        scalar.properties.isAlphabetic || scalar.properties.numericType != nil
            || "._:/@%+,=-".unicodeScalars.contains(scalar)
    }

    private static func store(_ words: [String]) throws -> Store {
        let directory = value(of: "--directory", words)
        return try StoreChoice(prefix: value(of: "--prefix", words), directory: directory).store()
    }

    private static func value(of option: String, _ words: [String]) -> String? {
        if let word = words.last(where: { $0.hasPrefix("\(option)=") }) {
            return String(word.dropFirst(option.count + 1))
        }
        guard let index = words.lastIndex(of: option), index + 1 < words.count else { return nil }
        return words[index + 1]
    }
}
