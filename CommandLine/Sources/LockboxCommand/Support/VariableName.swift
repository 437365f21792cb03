/// The environment variable that an item becomes.
enum VariableName {
    /// The key in capitals, with `_` for everything but ASCII letters and digits, and before a digit at the start.
    static func of(key: String) -> String {
        let name = String(
            key.map { $0.isASCII && ($0.isLetter || $0.isNumber) ? Character($0.uppercased()) : "_" }
        )
        return name.first?.isNumber == true ? "_\(name)" : name
    }

    /// Why the item may not become a variable, as the end of a sentence; nil if it may.
    ///
    /// - Parameter allowed: The names that the user gave.
    static func refusal(ofKey key: String, allowed: [String]) -> String? {
        let name = of(key: key)
        guard !allowed.contains(name), let effect = DangerousVariables.effect(of: name) else { return nil }
        return "as \(name) it decides \(effect); give --allow-variable \(name) if that is meant"
    }
}
