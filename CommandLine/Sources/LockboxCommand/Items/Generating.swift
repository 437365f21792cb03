import ArgumentParser
@_spi(Extensions) import Lockbox

struct GenerateCommand: Command {
    static let help: CommandHelp = """
        generate: Make a random password, and store it under a key if one is given.

        Without a key, the password is printed. Its entropy, in bits, is shown on standard error. The words of \
        --words are made of consonants and vowels in turn, 16 bits each (proquints), so they need no list.

        Example: lockbox generate db-password --length 32
        """

    enum Alphabet: String, CaseIterable, ExpressibleByArgument {
        case all, letters, hex, digits

        var characters: [Character] {
            switch self {
            case .all: Self.letters.characters + "!#%+,-./:=@_"
            case .letters: Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
            case .hex: Array("0123456789abcdef")
            case .digits: Array("0123456789")
            }
        }

        static var allValueDescriptions: [String: String] {
            [
                "all": "letters, digits and !#%+,-./:=@_, which a shell leaves alone",
                "letters": "letters and digits", "hex": "0 to 9 and a to f", "digits": "0 to 9",
            ]
        }
    }

    @Argument(help: "The item's key.", completion: .custom(Keys.keys))
    var key: String?

    @Option(help: "The number of characters. (default: 24)")
    var length: Int?

    @Option(help: "The characters to choose from.")
    var alphabet = Alphabet.letters

    @Option(help: "A passphrase of so many words instead.")
    var words: Int?

    @OptionGroup(title: "Attributes") var item: ItemOptions

    @Flag(name: .shortAndLong, help: "Do not ask before a value is replaced.")
    var yes = false

    @OptionGroup var output: ClipOptions

    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    func validate() throws {
        if words != nil, length != nil { throw ValidationError("Give --words or --length, not both.") }
        if !(1...1024).contains(words ?? length ?? 1) {
            throw ValidationError("--length and --words take 1 to 1024.")
        }
        if key == nil, !item.isEmpty { throw ValidationError("Give the key that the attributes are for.") }
    }

    func run() throws {
        let store = try options.store(for: .making)
        var random = SystemRandomNumberGenerator()
        let characters = alphabet.characters
        let text =
            words.map { (0..<$0).map { _ in Self.word(&random) }.joined(separator: "-") }
            ?? String((0..<(length ?? 24)).map { _ in characters.randomElement(using: &random)! })
        let bits = words.map { Double($0 * 16) } ?? Double(length ?? 24) * log2(Double(characters.count))
        if let key {
            let place = try ItemKey(prefix: store.prefix, key: key)
            // A script has to say that it means to replace one.
            if !yes { try store.confirmReplacement(of: place) }
            try item.write(.text(text), to: place, of: store, policy: .replace)
        }
        if key == nil || output.clip { try output.print(Data(text.utf8), store) }
        store.say("\(Int(bits)) bits of entropy\(key.map { ", stored as \($0.onOneLine)" } ?? "")")
    }

    /// A proquint, after Wilkerson's "A Proposal for Proquints" (2009).
    private static func word(_ random: inout SystemRandomNumberGenerator) -> String {
        let (consonants, vowels) = (Array("bdfghjklmnprstvz"), Array("aiou"))
        return String((0..<5).map { ($0 % 2 == 0 ? consonants : vowels).randomElement(using: &random)! })
    }
}
