import ArgumentParser

/// A searchable attribute as an argument: NAME=TEXT.
struct AttributePair: ExpressibleByArgument {
    let name: String
    let text: String

    init?(argument: String) {
        guard let equals = argument.firstIndex(of: "="), equals != argument.startIndex else { return nil }
        name = String(argument[..<equals])
        text = String(argument[argument.index(after: equals)...])
    }
}

extension [AttributePair] {
    var dictionary: [String: String] { Dictionary(map { ($0.name, $0.text) }) { $1 } }
}
