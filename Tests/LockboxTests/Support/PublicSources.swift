/// The public declarations of the package, as its sources have them. Relies on the layout that `swift format` keeps: what is
/// in a type or an `#if` is indented by four more spaces.
struct PublicSources {
    struct PublicType {
        let keyword: String
        let isNonexhaustive: Bool
    }

    struct Declaration {
        let call: PublicCall
        let isAsync: Bool
        let isThrowing: Bool
        let body: String
    }

    /// By their names, with the types that they are in.
    private(set) var types: [String: PublicType] = [:]
    private(set) var declarations: [Declaration] = []
    /// Public declarations that are none of these, or that cannot be read.
    private(set) var unknown: [String] = []
    private var internalTypes: Set<String> = []
    /// How many calls have a signature.
    private var overloads: [String: Int] = [:]
    private var conformances: [String: Set<String>] = [:]

    /// - Parameter folder: From the package's root.
    init(_ folder: String = "Sources") throws {
        for (_, text) in try SourceText.files(under: folder).sorted(by: { $0.key < $1.key }) { read(text) }
        declarations.removeAll { internalTypes.contains($0.call.type) }
        for call in Set(declarations.map(\.call)) { overloads[call.signature, default: 0] += 1 }
    }

    /// The protocols that a type conforms to, directly or not.
    func protocols(of type: String) -> Set<String> {
        var (found, next) = (Set<String>(), conformances[type] ?? [])
        while let one = next.popFirst() {
            if found.insert(one).inserted { next.formUnion(conformances[one] ?? []) }
        }
        return found
    }

    /// The signature, with types only if labels do not tell the call from others.
    func name(_ call: PublicCall) -> String {
        overloads[call.signature, default: 0] > 1 ? call.fullSignature : call.signature
    }

    // MARK: Reading

    private struct Scope {
        let indentation: Int
        let type: String
        let isPublicProtocol: Bool
    }

    private static let typeKeywords: Set = ["struct", "class", "enum", "actor", "protocol", "extension"]
    private static let callKeywords: Set = ["func", "var", "init", "subscript"]
    private static let otherKeywords: Set = ["let", "import", "typealias"]
    private static let modifiers: Set = [
        "public", "package", "internal", "fileprivate", "private", "static", "final", "indirect", "mutating",
        "nonmutating", "nonisolated", "lazy", "override", "weak", "convenience", "required",
    ]

    private mutating func read(_ text: String) {
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        var scopes: [Scope] = []
        for (number, line) in lines.enumerated() {
            var rest = line.drop { $0 == " " }
            let indentation = line.count - rest.count
            while rest.first == "@" { rest = rest.drop { $0 != " " }.drop { $0 == " " } }
            var modifiers: Set<String> = []
            while let modifier = Self.word(rest), Self.modifiers.contains(modifier) {
                modifiers.insert(modifier)
                rest = rest.drop { $0 != " " }.dropFirst()
            }
            guard let keyword = Self.word(rest) else { continue }
            let isType = Self.typeKeywords.contains(keyword)
            guard isType || Self.callKeywords.contains(keyword) else {
                if modifiers.contains("public"), !Self.otherKeywords.contains(keyword) {
                    unknown.append(String(line))
                }
                continue
            }
            while let last = scopes.last, last.indentation >= indentation { scopes.removeLast() }
            // Whatever the declaration is, its head is not longer.
            let following = lines[(number + 1)...].prefix(40).joined(separator: "\n")
            let declaration = "\(rest.dropFirst(keyword.count))\n\(following)"[...]
            if isType {
                let scope = readType(
                    declaration,
                    keyword,
                    isPublic: modifiers.contains("public"),
                    isNonexhaustive: lines[..<number].suffix(3).contains { $0.contains("@nonexhaustive") },
                    in: scopes.last?.type
                )
                scopes.append(
                    Scope(
                        indentation: indentation,
                        type: scope.name,
                        isPublicProtocol: scope.isPublicProtocol
                    )
                )
            } else if let scope = scopes.last,
                modifiers.contains("public")
                    || scope.isPublicProtocol && indentation == scope.indentation + 4
            {
                readCall(declaration, keyword, isStatic: modifiers.contains("static"), in: scope.type)
            }
        }
    }

    private mutating func readType(
        _ text: Substring,
        _ keyword: String,
        isPublic: Bool,
        isNonexhaustive: Bool,
        in outer: String?
    ) -> (name: String, isPublicProtocol: Bool) {
        var rest = text.drop { $0 == " " }
        var name = String(rest.prefix { $0.isLetter || $0.isNumber || $0 == "_" || $0 == "." })
        rest = rest.dropFirst(name.count)
        if name.hasPrefix("LockboxCore.") { name.removeFirst("LockboxCore.".count) }
        if keyword != "extension" {
            if let outer { name = "\(outer).\(name)" }
            if isPublic {
                types[name] = PublicType(keyword: keyword, isNonexhaustive: isNonexhaustive)
            } else {
                internalTypes.insert(name)
            }
        }
        if rest.first == "<" { rest = rest[Self.end(of: rest)...] }
        let head = rest.prefix { $0 != "{" }.split(separator: /\bwhere\b/, omittingEmptySubsequences: false)[
            0
        ]
        for part in head.drop(while: { $0 != ":" }).dropFirst().split(separator: ",") {
            // `@unchecked Sendable`, `Base<Argument>`
            let words = part.split { $0 == " " || $0 == "\n" }
            if let last = words.last(where: { !$0.hasPrefix("@") }) {
                conformances[name, default: []].insert(String(last.prefix { $0 != "<" }))
            }
        }
        return (name, keyword == "protocol" && isPublic)
    }

    private mutating func readCall(_ text: Substring, _ keyword: String, isStatic: Bool, in type: String) {
        var rest = text.drop { $0 == " " }
        var name = keyword
        if keyword == "func" || keyword == "var" {
            let end = rest.firstIndex { " (:<".contains($0) } ?? rest.endIndex
            name = rest[..<end].filter { $0 != "`" }
            rest = rest[end...].drop { $0 == " " }
        }
        if keyword == "init", rest.first == "?" { rest = rest.dropFirst() }
        var parameters: [PublicCall.Parameter] = []
        if keyword != "var" {
            if rest.first == "<" { rest = rest[Self.end(of: rest)...] }
            let end = Self.end(of: rest)
            parameters = Self.parameters(rest[..<end].dropFirst().dropLast())
            rest = rest[end...]
        } else if !rest.prefix(while: { $0 != "\n" }).contains("{") {
            return  // it is stored
        }
        if keyword == "var" || keyword == "subscript" {
            rest = rest.drop { $0 != "{" }.dropFirst().drop { $0.isWhitespace }
            rest = Self.word(rest) == "get" ? rest.dropFirst(3) : "{\(rest)"
        }
        let effects = rest.prefix(while: { $0 != "{" }).firstMatch(of: /^\s*(async\b)?\s*((?:re)?throws\b)?/)
        let body = rest.drop { $0 != "{" }
        declarations.append(
            Declaration(
                call: PublicCall(type: type, isStatic: isStatic, name: name, parameters: parameters),
                isAsync: effects?.1 != nil,
                isThrowing: effects?.2 != nil,
                body: body.isEmpty ? "" : String(body[..<Self.end(of: body)])
            )
        )
    }

    // MARK: Text

    private static func word(_ text: Substring) -> String? {
        let word = text.prefix { $0.isLetter }
        return word.isEmpty ? nil : String(word)
    }

    /// After the bracket that closes the one at the beginning.
    private static func end(of text: Substring) -> Substring.Index {
        let closing: [Character: Character] = ["(": ")", "{": "}", "<": ">"]
        var (depth, last) = (0, Character(" "))
        for index in text.indices {
            let character = text[index]
            if character == text.first { depth += 1 }
            if character == closing[text.first ?? " "], last != "-" { depth -= 1 }
            if depth == 0 { return text.index(after: index) }
            last = character
        }
        return text.endIndex
    }

    /// What is not part of the type of a function: attributes, the parameter's own name, and its default.
    private static func parameters(_ text: Substring) -> [PublicCall.Parameter] {
        var (parts, depth, last) = ([""], 0, Character(" "))
        var isDefault = false
        for character in text {
            if "([{<".contains(character) { depth += 1 }
            if ")]}>".contains(character), character != ">" || last != "-" { depth -= 1 }
            last = character
            if depth == 0, character == "=" { isDefault = true }
            if depth == 0, character == "," {
                parts.append("")
                isDefault = false
            } else if !isDefault {
                parts[parts.count - 1].append(character.isNewline ? " " : character)
            }
        }
        return parts.compactMap { part in
            guard let colon = part.firstIndex(of: ":"), let label = part.split(separator: " ").first else {
                return nil
            }
            let type = part[colon...].dropFirst().split(separator: " ").filter { !$0.hasPrefix("@") }
            return PublicCall.Parameter(
                label: String(label.prefix { $0 != ":" }),
                type: type.joined(separator: " ")
            )
        }
    }
}
