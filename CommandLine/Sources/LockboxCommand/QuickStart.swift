/// Runs the simple forms of `lockbox get KEY` and `lockbox git-credential get` without the argument parser, which inspects
/// every command and option: `lockbox get` takes 5 ms with it, and 2 ms without. This road may go once it saves less than a
/// third.
enum QuickStart {
    /// Returns false for any other arguments, valid or not. The parser handles those.
    static func run(_ arguments: [String]) throws -> Bool {
        guard let command = arguments.first, command == "get" || command == "git-credential" else {
            return false
        }
        var choice = StoreChoice()
        var operand: String?
        var rest = arguments.dropFirst()
        while let word = rest.popFirst() {
            if word.hasPrefix("-") {
                guard let value = rest.popFirst(), !value.hasPrefix("-") else { return false }
                switch word {
                case "--prefix" where choice.prefix == nil: choice.prefix = value
                case "--directory" where choice.directory == nil: choice.directory = value
                case "--passcode-file" where choice.passcodeFile == nil: choice.passcodeFile = value
                default: return false
                }
            } else {
                guard operand == nil else { return false }
                operand = word
            }
        }
        guard let operand else { return false }
        if command == "get" {
            try GetCommand.print(operand, choice) { try $0.plain(operand) }
        } else {
            try GitCredentialCommand.run(operand, choice)
        }
        return true
    }
}
