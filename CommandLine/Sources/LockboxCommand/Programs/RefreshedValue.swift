@_spi(Extensions) import Lockbox

/// What COMMAND has printed, which is to replace an old value.
struct RefreshedValue {
    let old: ArchivedValue
    let output: Data
    /// Whether a newline at its end is meant: it is by the user, and not by a command.
    var isEdited = false

    /// It is no new value. The old one stays.
    struct Refused: Error {
        let reason: String
        let output: Data
    }

    private func refusal(_ reason: String) -> Refused { Refused(reason: reason, output: output) }

    /// The new value: what an answer of an issuer leaves out stays as it is (RFC 6749, section 6).
    func merged() throws -> ArchivedValue {
        guard output.contains(where: { !" \t\r\n".utf8.contains($0) }) else {
            throw refusal("it is empty")
        }
        let before = try old.plain("")
        guard let oldMembers = JSONValue.members(of: before) else {
            try checkText(String(decoding: before, as: UTF8.self), String(decoding: output, as: UTF8.self))
            return try value(output)
        }
        guard let members = JSONValue.members(of: output) else {
            throw refusal("it is no JSON object, which the old value is")
        }
        let new = try merge(members, over: oldMembers)
        return try value(new.keeps ? JSONValueCoder().encode(new.members) : output)
    }

    /// Returns the new members, with the old ones that are left out, and whether there are any.
    private func merge(_ new: [String: JSONValue], over old: [String: JSONValue]) throws -> (
        members: [String: JSONValue], keeps: Bool
    ) {
        try checkAnswer(new, old)
        var (merged, keeps) = (new, false)
        for (name, before) in old {
            let isToken = ["accesstoken", "refreshtoken"].contains(Self.plain(name))
            if let inside = before.members, let members = new[name]?.members {
                let inner = try merge(members, over: inside)
                if inner.keeps { (merged[name], keeps) = (JSONValue(inner.members), true) }
            } else if new[name]?.isNull ?? true || isToken && new[name]!.isEmpty {
                (merged[name], keeps) = (before, true)
            } else if isToken, before.text != nil, new[name]?.text == nil {
                throw refusal("its \(name.onOneLine) is no text")
            }
        }
        return (merged, keeps)
    }

    /// A name as it is without its style: `accessToken` and `access_token` are one.
    private static func plain(_ name: String) -> String { name.lowercased().filter { $0 != "_" } }

    private func checkAnswer(_ members: [String: JSONValue], _ old: [String: JSONValue]) throws {
        if let error = members["error"], !error.isEmpty {
            let text = (try? JSONValueCoder().encode(error)).map { String(decoding: $0, as: UTF8.self) } ?? ""
            throw refusal("it has the member error, \(text.onOneLine)")
        }
        let names = old.keys.filter { ["accesstoken", "refreshtoken"].contains(Self.plain($0)) }
        guard !names.isEmpty else { return }
        let name = names.first { Self.plain($0) == "accesstoken" } ?? "access_token"
        if members[name]?.isEmpty ?? true { throw refusal("it has no \(name.onOneLine)") }
    }

    /// An error in the place of a token, or of a form with tokens.
    private func checkText(_ old: String, _ new: String) throws {
        for name in ["access_token", "refresh_token"] where old.contains(name) && !new.contains(name) {
            throw refusal("it has no \(name)")
        }
        if new.trimmingWhitespace == "null", old.trimmingWhitespace != "null" {
            throw refusal("it is null")
        }
        for (sign, kind) in [("<", "HTML or XML"), ("{", "JSON")]
        where isThis(sign, new) && !isThis(sign, old) {
            throw refusal("it is \(kind), which the old value is not")
        }
    }

    private func isThis(_ sign: String, _ text: String) -> Bool {
        text.trimmingWhitespace.drop { $0 == "\u{FEFF}" }.hasPrefix(sign)
    }

    /// The bytes as a value of the same kind as the old one: text, bytes or JSON.
    private func value(_ bytes: Data) throws -> ArchivedValue {
        if old.format != .json { return try ArchivedValue(data: bytes, format: old.format) }
        if (try? old.decode(String.self, "")) != nil {
            let text = String(validating: bytes, as: UTF8.self)
            let new = isEdited ? text : text?.withoutOnlyNewline
            guard let new, !new.isEmpty else { throw refusal("it is no text in UTF-8") }
            return try .text(new)
        }
        guard JSONValue.isStrict(bytes) else { throw refusal("it is no valid JSON") }
        return try ArchivedValue(data: bytes, format: .json)
    }

    /// Whatever it is, and no less than the old value was.
    func asItIs() throws -> ArchivedValue {
        if output.isEmpty { throw refusal("it is empty") }
        return try value(output)
    }
}
