/// `lockbox get KEY` and `lockbox git-credential get` in their plain forms, without the parser: it looks at every command
/// and every option there is, and that takes several times as long as what they do.
enum QuickStart {
    /// False if there is anything that is not plain, even if it is wrong: that is for the parser, then.
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
            try GetCommand.run(operand, choice)
        } else {
            try GitCredentialCommand.run(operand, choice)
        }
        return true
    }
}
