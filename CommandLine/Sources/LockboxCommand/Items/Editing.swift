import ArgumentParser
import CProcess
import Lockbox

struct EditCommand: Command {
    static let help: CommandHelp = """
        edit: Change a value in your editor.

        $VISUAL or $EDITOR, otherwise vi, gets the value in a file that only you can read, in memory, and that is gone when this command ends. \
        The value is stored only if it was changed; the item's class, expiry and attributes stay. A key without an item gets one. \
        If it cannot be stored, the text can be edited again; without a terminal it is printed. \
        vim and neovim, also as vi, are told to keep no copies of their own; other editors may.

        Example: EDITOR=nano lockbox edit token
        """

    @Argument(help: "The item's key.", completion: .custom(Keys.keys))
    var key: String

    @OptionGroup(title: StoreHelp.title) var secret: UnlockOptions
    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    func run() throws {
        let store = try options.store(unlockedBy: secret.secret, for: .making)
        let place = try ItemKey(prefix: store.prefix, key: key)
        let old = try store.unlocking(for: key) { try store.backend.item(for: place, now: Date()) }
        let value = try old?.value ?? .text("")
        let before = try value.plain(key)
        if String(validating: before, as: UTF8.self) == nil || before.contains(0) {
            throw Failure(.conflict, "The value is not text, which an editor needs. Nothing was changed.")
        }
        let isJSON = before == value.data && value.format == .json
        let file = try MemoryFile(before, named: isJSON ? "value.json" : "value")
        // The text is there until it is stored.
        defer { file.remove() }
        var unstored: Data?
        while true {
            do {
                var text = try file.edited()
                // An editor ends the last line, which a value need not.
                if before.last != UInt8(ascii: "\n"), text.last == UInt8(ascii: "\n") { text.removeLast() }
                unstored = text == before ? nil : text
                if unstored == nil {
                    if old != nil { return store.say("The value is the same. Nothing was changed.") }
                    throw Failure(.noSuchItem, "There is no item \(key.onOneLine); none was made.")
                }
                let new = try RefreshedValue(old: value, output: text, isEdited: true).asItIs()
                return try write(new, over: old, at: place, in: store)
            } catch {
                guard let unstored else { throw error }
                try ask(about: unstored, notStoredBecauseOf: error)
            }
        }
    }

    /// Another program has changed the item.
    private struct Changed: Error { let item: StoredItem? }

    private func write(_ value: ArchivedValue, over old: StoredItem?, at place: ItemKey, in store: Store)
        throws
    {
        let now = Date()
        let options = WriteOptions(policy: old == nil ? .addOnly : .updateOnly)
        let changes = ItemChanges(value: value, options: options, modified: now)
        do {
            try store.unlocking(for: key) {
                try store.backend.update(place, now: now) { current in
                    if current != old { throw Changed(item: current) }
                    return try changes.item(after: current, for: place)
                }
            }
        } catch let changed as Changed {
            try Terminal.confirm(
                "The item \(key.onOneLine) was changed meanwhile. Replace it by yours?",
                otherwise: "The item was changed meanwhile, and stays so.",
                refusal: "The item stays as it is."
            )
            try write(value, over: changed.item, at: place, in: store)
        }
    }

    /// Asks whether to edit it again. Without a terminal, prints it: it is nowhere else.
    private func ask(about text: Data, notStoredBecauseOf error: any Error) throws {
        let refused = (error as? RefreshedValue.Refused).map {
            Failure(.conflict, "The value cannot be stored: \($0.reason).")
        }
        let failure = refused ?? Failure(error)
        let problem = "\(failure.message) Your text is not stored"
        if Terminal.canAsk {
            return try Terminal.confirm("\(problem). Edit it again?", otherwise: "\(problem).")
        }
        try Output.bytes(text)
        throw Failure(failure.status, "\(problem), and is on standard output.")
    }
}

/// A secret in a file that is in memory.
private struct MemoryFile {
    private let path: String
    /// The pipes of a process that removes the file when they are closed, also by a signal that ends this process.
    private let keeper: (input: CInt, output: CInt)

    private static let script = "trap '' TERM HUP; exec 2>/dev/null; cd /; echo; cat >&2; rm -rf \"$1\""

    init(_ contents: Data, named name: String) throws {
        let folders = [try Environment["XDG_RUNTIME_DIR"]].compactMap(\.self) + memoryFolders
        guard let parent = folders.first(where: { is_in_memory($0) != 0 && access($0, W_OK) == 0 }) else {
            throw Failure(
                .inputOutput,
                "There is no folder in memory for the value: no tmpfs that this user can write among \(folders.map(\.onOneLine).joined(separator: ", ")). Mount one and "
                    + "set XDG_RUNTIME_DIR to it, or use `lockbox set`. Nothing was changed."
            )
        }
        var template = Array("\(parent)/lockbox-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else {
            throw Failure.system("No folder can be made in \(parent.onOneLine)")
        }
        let folder = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
        path = "\(folder)/\(name)"
        keeper = try PipedProgram.startDetached(["sh", "-c", Self.script, "lockbox", folder])
        waitForKeeper()
        let file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        defer { close(file) }
        guard file >= 0, Output.writeAll(contents, to: file) else {
            remove()
            throw Failure.system("The value cannot be written to \(parent.onOneLine)")
        }
    }

    /// Lets the user edit it.
    func edited() throws -> Data {
        let editor = try Environment["VISUAL"] ?? Environment["EDITOR"] ?? "vi"
        let options = try Self.isVim(editor) ? " -n -i NONE -c '\(Self.settings)'" : ""
        // The keys that a terminal turns into these signals are the editor's, and not the shell's around it. The start of the keeper
        // has taken the passcode away.
        let status = system("trap : INT QUIT; \(editor)\(options) \(path.quotedForShell)")
        guard status == 0 else {
            throw Failure(
                .conflict,
                "\(editor.onOneLine) ended with \(PipedProgram.exitCode(status)). Nothing was changed."
            )
        }
        return try Input.all(ofFile: path)
    }

    /// The settings that come after those of the user's vimrc.
    private static let settings = "set noswapfile nobackup nowritebackup patchmode= noundofile viminfo="

    /// Whether the program is vim or neovim, to which vi and editor may be links.
    private static func isVim(_ editor: String) throws -> Bool {
        let name = String(editor.prefix { $0 != " " })
        let folders =
            try name.contains("/") ? [""] : (Environment["PATH"] ?? "").split(separator: ":").map { "\($0)/" }
        let path = folders.lazy.compactMap { realPath("\($0)\(name)") }.first
        return [name, path ?? ""].contains {
            $0.split(separator: "/").last?.wholeMatch(
                of: /[a-z]?vim?([.-](tiny|basic|nox|gtk3?|athena|huge))?/
            ) != nil
        }
    }

    /// Waits until it is gone.
    func remove() {
        unlink(path)
        close(keeper.input)
        waitForKeeper()
        close(keeper.output)
    }

    /// Waits until it is ready, or has ended.
    private func waitForKeeper() {
        var byte: UInt8 = 0
        while read(keeper.output, &byte, 1) < 0, errno == EINTR {}
    }
}

extension String {
    /// The text as one word of a shell.
    var quotedForShell: String {
        wholeMatch(of: /[A-Za-z0-9_.,:\/+@%=-]+/) == nil ? "'\(replacing("'", with: "'\\''"))'" : self
    }
}
