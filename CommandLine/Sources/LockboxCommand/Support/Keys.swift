import Lockbox

/// Completes keys and prefixes in a shell, from the items in the store. Needs no passcode, because keys can be
/// read while the store is locked.
enum Keys {
    static let keys: @Sendable ([String], Int, String) -> [String] = { words, _, prefix in
        guard let store = try? store(words), let keys = try? Set(store.lockbox.list().items.keys) else {
            return []
        }
        return candidates(keys, prefix)
    }

    static let prefixes: @Sendable ([String], Int, String) -> [String] = { words, _, prefix in
        guard let prefixes = try? store(words).backend.prefixes(unreadable: { _ in }) else { return [] }
        return candidates(prefixes, prefix)
    }

    /// Only words that the shell does not interpret. A key may contain anything, and may come from someone
    /// else.
    private static func candidates(_ all: Set<String>, _ prefix: String) -> [String] {
        let words = all.filter { $0.hasPrefix(prefix) && $0.onOneLine == $0 }.sorted()
        switch Environment["SAP_SHELL"] {
        case "fish": return words
        // In zsh, a colon separates the word from its description.
        case "zsh": return words.map { $0.replacing("\\", with: "\\\\").replacing(":", with: "\\:") }
        // bash evaluates the words: $(command) in a key would be executed.
        default: return words.filter { $0.unicodeScalars.allSatisfy(isPlain) }
        }
    }

    /// Letters, digits, and characters that no shell interprets.
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
