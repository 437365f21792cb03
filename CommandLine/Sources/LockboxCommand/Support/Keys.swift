import Foundation
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

    /// Only what a shell can be given on a line of its own.
    private static func candidates(_ all: Set<String>, _ prefix: String) -> [String] {
        all.filter { $0.hasPrefix(prefix) && $0.onOneLine == $0 }.sorted()
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
