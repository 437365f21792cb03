/// A public function, property, subscript or initializer.
struct PublicCall: Hashable {
    struct Parameter: Hashable {
        let label: String
        let type: String
    }

    /// With the types that it is in: `StoreFinding.Kind`.
    var type: String
    let isStatic: Bool
    let name: String
    /// None for a property: its async form is a function without parameters.
    let parameters: [Parameter]

    /// With labels only: `static Lockbox.removeObject(forKey:)`.
    var signature: String { text(parameters.map { "\($0.label):" }.joined()) }

    /// With labels and types: `static Lockbox.removeObject(forKey: String)`.
    var fullSignature: String { text(parameters.map { "\($0.label): \($0.type)" }.joined(separator: ", ")) }

    private func text(_ parameters: String) -> String {
        "\(isStatic ? "static " : "")\(type).\(name)(\(parameters))"
    }

    func of(_ type: String) -> PublicCall {
        var copy = self
        copy.type = type
        return copy
    }
}
