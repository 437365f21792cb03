import ArgumentParser
import Lockbox
@_spi(Extensions) import LockboxImport

struct InjectCommand: Command {
    static let help: CommandHelp = """
        inject: Fill in the references of a template.

        Each lockbox://prefix/key in standard input is replaced by the item, and lockbox://prefix/key#field by a member of its JSON value. A \
        reference ends before white space, quotes, brackets, commas and semicolons; what else may follow it as {{ lockbox://prefix/key }}. \
        Nothing is written before all are there.

        Example: lockbox inject --in app.conf.tpl --out app.conf
        """

    @Option(name: [.customShort("i"), .customLong("in")], file: "Read the template from this file.")
    var template: String?

    @Option(name: .shortAndLong, file: "Make this file, which only you can read, or replace it.")
    var out: String?

    @OptionGroup var references: ReferenceOptions

    @OptionGroup(title: StoreHelp.title) var secret: UnlockOptions
    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    func validate() throws {
        if template == nil { try options.checkStandardInput(carries: "the template") }
    }

    func run() throws {
        let store = try options.store(unlockedBy: secret.secret)
        let input = try template.map { try Input.all(ofFile: $0) } ?? Input.all()
        guard let text = String(validating: input, as: UTF8.self) else {
            throw Failure(.usage, "The template is not UTF-8. Nothing was written.")
        }
        let form = /\{\{\s*(lockbox:\/\/[^{}]*?)\s*\}\}|lockbox:\/\/[^\s"'`<>(){}\[\],;\\]*/
        let found = text.matches(of: form)
        let allowed = references.allowPrefix + [store.prefix]
        let all = try found.map { match in
            let line = text[..<match.range.lowerBound].utf8.count { $0 == UInt8(ascii: "\n") } + 1
            let place = "\(template?.onOneLine ?? "standard input"), line \(line): "
            return try Reference(match.output.1 ?? match.output.0, at: place, allowed: allowed)
        }
        let now = Date()
        let values = try Reference.opening(all, in: store) {
            try all.map { try $0.value(in: store, at: now) }
        }
        var (result, end) = (Data(), text.startIndex)
        for (match, value) in zip(found, values) {
            result += Data(text[end..<match.range.lowerBound].utf8) + value
            end = match.range.upperBound
        }
        result += Data(text[end...].utf8)
        try out.map { try Output.replaceFile($0, with: result) } ?? Output.value(result)
    }
}

struct ReferenceOptions: ParsableArguments {
    @Option(
        help: .init(
            "References may name this prefix besides the store's. Can be repeated.",
            valueName: "prefix"
        ),
        completion: .custom(Keys.prefixes)
    )
    var allowPrefix: [String] = []
}

/// An item, or a member of its JSON value.
struct Reference {
    let key: ItemKey
    var field: String?
    /// Where it stands, as the beginning of a message.
    var place = ""

    init(key: ItemKey) { self.key = key }

    /// - Parameter allowed: The prefixes that it may name.
    init(_ text: Substring, at place: String, allowed: [String]) throws {
        guard let parts = text.wholeMatch(of: /lockbox:\/\/([^\/#]+)\/([^#]+)(?:#(.+))?/),
            let prefix = References.decoded(parts.1), let key = References.decoded(parts.2)
        else {
            let key = text.wholeMatch(of: /lockbox:\/\/([^\/#]+)/)?.1
            let remedy = key.map {
                " If it is a key, put the prefix before it: lockbox://\(allowed.last!.onOneLine)/\(String($0).onOneLine)."
            }
            throw Failure(
                .usage,
                "\(place)This is no reference lockbox://prefix/key#field.\(remedy ?? "") Nothing was done."
            )
        }
        guard allowed.contains(prefix) else {
            throw Failure(
                .conflict,
                "\(place)It names the prefix \(prefix.onOneLine). If that is the beginning of a key, put the prefix before it: "
                    + "lockbox://\(allowed.last!.onOneLine)/\(prefix.onOneLine)/\(key.onOneLine). If not, use --allow-prefix. Nothing was done."
            )
        }
        (self.key, field, self.place) = (
            try ItemKey(prefix: prefix, key: key), parts.3.map(String.init), place
        )
    }

    /// Runs `body`, which opens them. The prompt for a passcode names them.
    static func opening<Result>(_ all: [Reference], in store: Store, _ body: () throws -> Result) throws
        -> Result
    {
        let names = all.map { $0.key.prefix == store.prefix ? $0.key.key : $0.key.text }
        return try store.unlocking(for: names.joined(separator: ", "), body)
    }

    func value(in store: Store, at now: Date) throws -> Data {
        do {
            guard let value = try store.backend.value(for: key, now: now) else {
                throw try store.of(key.prefix).missing(key.key)
            }
            return try (field.map { try value.field($0, key.key) } ?? value).plain(key.key)
        } catch let failure as Failure { throw Failure(failure.status, place + failure.message) }
    }
}

/// An `.env` file in which values may be references to items.
enum References {
    /// - Parameter allowed: The prefixes that they may name.
    static func read(_ path: String, allowed: [String]) throws -> [ExecCommand.Variable] {
        // In their places, so that one inside another value is not taken for a line of its own.
        var references: [String: ExecCommand.Variable] = [:]
        let mark = "reference\(UInt64.random(in: .min ... .max))"
        guard let text = String(validating: try Input.all(ofFile: path), as: UTF8.self) else {
            throw Failure(.usage, "\(path.onOneLine) is not UTF-8. Nothing was run.")
        }
        var lines = text.utf8.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
            .map { String(Substring($0)) }
        let form =
            /\u{FEFF}?\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(["']?)(lockbox:\/\/.*?)\2\s*(?:\s#.*)?/
        for index in lines.indices {
            guard let parts = lines[index].wholeMatch(of: form) else { continue }
            let (name, place) = (String(parts.1), "\(path.onOneLine), line \(index + 1): ")
            let text = "\(mark)x\(index)"
            let reference = try Reference(parts.3, at: place, allowed: allowed)
            references[text] = ExecCommand.Variable(name: name, reference: reference)
            lines[index] = "\(name)=\(text)"
        }
        let rest = Data(lines.joined(separator: "\n").utf8)
        let variables = try EnvironmentDialect.common.variables(of: rest, named: path)
        let isInside = variables.contains {
            references[$0.value] == nil
                && ($0.value.containsLiterally(mark) || $0.value.containsLiterally("lockbox://"))
        }
        if isInside {
            throw Failure(.usage, "\(path.onOneLine) has a reference inside another value. Nothing was run.")
        }
        return variables.map { references[$0.value] ?? .init(name: $0.name, text: $0.value) }
    }

    /// With the bytes for %2F and the like.
    static func decoded(_ text: Substring) -> String? {
        let parts = text.utf8.split(separator: UInt8(ascii: "%"), omittingEmptySubsequences: false)
        var bytes = Array(parts[0])
        for part in parts.dropFirst() {
            guard let digits = Substring(part).prefixMatch(of: /[0-9A-Fa-f]{2}/)?.output else { return nil }
            bytes += [UInt8(digits, radix: 16)!] + part.dropFirst(2)
        }
        return String(validating: bytes, as: UTF8.self)
    }
}
