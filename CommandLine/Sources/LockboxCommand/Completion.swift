import Lockbox

/// Completes keys, prefixes and slots in a shell, from what is in the store. Needs no passcode, because keys can be
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

    static let slots: @Sendable ([String], Int, String) -> [String] = { words, _, prefix in
        guard let slots = try? store(words).backend.slots else { return [] }
        return candidates(Set(slots.map(\.id)), prefix)
    }

    /// Only words that the shell does not interpret. A key may contain anything, and may come from someone
    /// else.
    private static func candidates(_ all: Set<String>, _ prefix: String) -> [String] {
        let words = all.filter { $0.hasPrefix(prefix) && $0.onOneLine == $0 }.sorted()
        switch try? Environment["SAP_SHELL"] {
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
        func last(_ option: String) -> String? { values(of: option, words).last }
        var choice = StoreChoice(prefix: last("--prefix"))
        choice.directory = last("--directory")
        choice.store = last("--store")
        choice.access = ClusterAccess(
            caFile: last("--ca-file"),
            certificate: last("--certificate-file"),
            certificateKey: last("--certificate-key-file"),
            user: last("--user"),
            userPasswordFile: last("--user-password-file")
        )
        choice.deviceKeyFiles = values(of: "--device-key-file", words)
        choice.deviceKeyCredentials = values(of: "--device-key-credential", words)
        return try choice.store(checksPasscode: false)
    }

    private static func values(of option: String, _ words: [String]) -> [String] {
        words.indices.compactMap { index in
            if words[index].hasPrefix("\(option)=") {
                return String(words[index].dropFirst(option.count + 1))
            }
            return words[index] == option && index + 1 < words.count ? words[index + 1] : nil
        }
    }
}
