/// The environment variable for an item.
enum VariableName {
    /// The key in upper case, with `_` for everything except ASCII letters and digits, and `_` before a leading
    /// digit.
    static func of(key: String) -> String {
        let name = String(
            key.map { $0.isASCII && ($0.isLetter || $0.isNumber) ? Character($0.uppercased()) : "_" }
        )
        return name.first?.isNumber == true ? "_\(name)" : name
    }

    /// Returns why the item must not become a variable, as the end of a sentence, or nil if it may.
    ///
    /// - Parameter allowed: The names that the user has allowed.
    static func refusal(ofKey key: String, allowed: [String]) -> String? {
        let name = of(key: key)
        guard !allowed.contains(name), let effect = DangerousVariables.effect(of: name) else { return nil }
        return "as \(name) it controls \(effect); use --allow-variable \(name) to allow it"
    }
}
