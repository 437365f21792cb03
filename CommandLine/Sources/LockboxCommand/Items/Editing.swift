import ArgumentParser
import CProcess
import Lockbox

struct EditCommand: Command {
    static let help: CommandHelp = """
        edit: Change a value in your editor.

        $VISUAL or $EDITOR, otherwise vi, gets the value in a file that only you can read, in memory, and that is gone when this command ends. \
        The value is stored only if it was changed; the item's class, expiry and attributes stay. A key without an item gets one. \
        vim and neovim are told to keep no copies of their own; other editors may.

        Example: EDITOR=nano lockbox edit token
        """

    @Argument(help: "The item's key.", completion: .custom(Keys.keys))
    var key: String

    @OptionGroup(title: StoreHelp.title) var secret: UnlockOptions
    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    func run() throws {
        let store = try options.store(unlockedBy: secret.secret, for: .making)
        let place = try ItemKey(prefix: store.prefix, key: key)
        var old = try store.unlocking(for: key) { try store.backend.item(for: place, now: Date()) }
        guard let value = try edited(old?.value ?? .text("")) else {
            if old == nil {
                throw Failure(.noSuchItem, "There is no item \(key.onOneLine); none was made.")
            }
            return store.say("The value is the same. Nothing was changed.")
        }
        while true {
            do { return try write(value, over: old, at: place, in: store) } catch let changed as Changed {
                try Terminal.confirm(
                    "The item \(key.onOneLine) was changed meanwhile. Replace it by yours?",
                    otherwise: "The item was changed meanwhile, and stays so. Your text is not stored."
                )
                old = changed.item
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
        try store.unlocking(for: key) {
            try store.backend.update(place, now: now) { current in
                if current != old { throw Changed(item: current) }
                return try changes.item(after: current, for: place)
            }
        }
    }

    /// Returns nil if the user has changed nothing.
    private func edited(_ old: ArchivedValue) throws -> ArchivedValue? {
        let before = try old.plain(key)
        if String(validating: before, as: UTF8.self) == nil || before.contains(0) {
            throw Failure(.conflict, "The value is not text, which an editor needs. Nothing was changed.")
        }
        options.keepFromPrograms()
        let isJSON = before == old.data && old.format == .json
        let file = try MemoryFile(before, named: isJSON ? "value.json" : "value")
        defer { file.remove() }
        while true {
            var after = try file.edited()
            // An editor ends the last line, which a value need not.
            if before.last != UInt8(ascii: "\n"), after.last == UInt8(ascii: "\n") { after.removeLast() }
            if after == before { return nil }
            do { return try RefreshedValue(old: old, output: after).asItIs() } catch let refused
                as RefreshedValue.Refused
            {
                let problem = "The value cannot be stored: \(refused.reason)."
                try Terminal.confirm(
                    "\(problem) Edit it again?",
                    otherwise: "\(problem) Nothing was changed."
                )
            }
        }
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
        let isVim = editor.split(separator: " ").first?.hasSuffix("vim") ?? false
        let options = isVim ? " -n -i NONE -c 'set nobackup nowritebackup noundofile'" : ""
        // The keys that a terminal turns into these signals are the editor's, and not the shell's around it.
        let status = system("trap : INT QUIT; \(editor)\(options) \(path.quotedForShell)")
        guard status == 0 else {
            throw Failure(
                .conflict,
                "\(editor.onOneLine) ended with \(PipedProgram.exitCode(status)). Nothing was changed."
            )
        }
        return try Input.all(ofFile: path)
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
