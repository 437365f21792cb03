import ArgumentParser
import Lockbox
import LockboxImport

struct ImportEnvCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import-env",
        abstract: "Store the variables of an .env file.",
        discussion: """
            Each variable is stored as text under its name, even if it is empty. An existing item with \
            another value is kept, and listed. Variables such as PATH or LD_PRELOAD, which control what \
            programs run, are refused unless they are given with --allow-variable.

            Example: lockbox import-env .env --remove
            """
    )

    @OptionGroup var file: ImportedFile

    @Option(
        help: ArgumentHelp(
            "Import this variable although it controls what programs run. Can be repeated.",
            valueName: "name"
        )
    )
    var allowVariable: [String] = []

    @OptionGroup var options: StoreOptions

    func run() throws {
        try file.run(
            options,
            .environmentFile(at: file.file),
            refusing: { VariableName.refusal(ofKey: $0, allowed: allowVariable) }
        ) {
            .string($0, accessibility: $1)
        }
    }
}
