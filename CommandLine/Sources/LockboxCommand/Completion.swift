import Lockbox

/// Completes keys, prefixes and slots in a shell, from what is in the store. Needs no passcode, because keys can be
/// read while the store is locked.
enum Keys {
    typealias Completion = @Sendable (_ words: [String], _ index: Int, _ prefix: String) -> [String]

    static let keys = fromStore { try Set($0.lockbox.list().items.keys) }
    static let prefixes = fromStore { try $0.backend.prefixes { _ in } }
    static let slots = fromStore { try Set($0.status().slots.map(\.id)) }

    private static func fromStore(_ all: @escaping @Sendable (Store) throws -> Set<String>) -> Completion {
        { words, _, prefix in candidates((try? all(store(words))) ?? [], prefix) }
    }

    /// Programs in the `PATH`, and files by their paths.
    static let programs: Completion = { _, _, prefix in
        let folders = (try? Environment["PATH"])?.split(separator: ":").map { "\($0)/" } ?? []
        let names = (prefix.contains("/") ? [] : folders).flatMap { folder in
            matches(folder + prefix).filter { access($0, X_OK) == 0 }.map { $0.dropFirst(folder.count) }
        }
        return candidates(Set(names.map(String.init) + matches(prefix)), prefix)
    }

    private static func matches(_ path: String) -> [String] {
        var found = glob_t()
        defer { globfree(&found) }
        let pattern = path.replacing(/[\\*?\[]/) { "\\\($0.output)" } + "*"
        guard glob(pattern, GLOB_MARK, nil, &found) == 0 else { return [] }
        return (0..<Int(found.gl_pathc)).compactMap { found.gl_pathv[$0].map { String(cString: $0) } }
    }

    /// Only words that the shell does not interpret. A key may contain anything, and another user may
    /// have chosen it.
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
        // The word to complete may be an empty one.
        func last(_ option: String) -> String? { values(of: option, words).last { !$0.isEmpty } }
        let choice = StoreChoice(
            prefix: last("--prefix"),
            directory: last("--directory"),
            store: last("--store"),
            access: ClusterSetting.allCases.reduce(into: [:]) { $0[$1] = last("--\($1.rawValue)") },
            deviceKeyFiles: values(of: "--device-key-file", words),
            deviceKeyCredentials: values(of: "--device-key-credential", words)
        )
        return try choice.store(for: .any)
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

extension Keys {
    /// The completion script of a shell with what the parser leaves out: aliases, and that a key is no folder of the same name.
    static func completed(_ script: String) -> String {
        let aliases =
            LockboxCommand.configuration.groupedSubcommands.flatMap(\.subcommands).flatMap {
                command in
                command.configuration.aliases.map { ($0, command._commandName) }
            } + [("add", SetCommand._commandName)]
        let fish = "        __lockbox_parse_subcommand 0 'version' 'h/help'\n"
        let changes = aliases.map { "        case \($0); set unparsed_tokens[1] \($1)\n" }.joined()
        func cases(_ word: String) -> String {
            "case \"${\(word)}\" in \(aliases.map { "\($0)) \(word)=\($1) ;;" }.joined(separator: " ")) esac"
        }
        let bash = "    local -r subcommand=\"${unparsed_words[0]}\"\n"
        let zsh = "        case \"${words[1]}\" in\n"
        let offer = "__lockbox_add_completions() {\n"
        return
            script.replacing(
                fish,
                with: "\(fish)        switch \"$unparsed_tokens[1]\"\n\(changes)        end\n",
                maxReplacements: 1
            )
            .replacing(bash, with: "    \(cases("unparsed_words[0]"))\n\(bash)", maxReplacements: 1)
            .replacing(zsh, with: "        \(cases("words[1]"))\n\(zsh)", maxReplacements: 1)
            .replacing(offer, with: "\(offer)    [[ $1 = -W ]] && compopt +o filenames 2>/dev/null\n")
    }
}
