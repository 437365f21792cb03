import ArgumentParser
import Lockbox

struct ImportPassCommand: Command {
    static let help: CommandHelp = """
        import-pass: Store the passwords of pass.

        gpg decrypts each file, and asks for its passphrase as for pass. The first line of web/shop.gpg becomes the item web/shop, the \
        rest web/shop/notes; a line otpauth:// of the rest becomes web/shop/otp, for `lockbox otp`. All are stored, or none, and \
        the store of pass stays as it is.

        Example: lockbox import-pass --dry-run
        """

    @Argument(
        help: "The store of pass. (default: $PASSWORD_STORE_DIR, otherwise ~/.password-store)",
        completion: .directory
    )
    var folder: String?

    @OptionGroup var migration: ImportOptions

    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    func run() throws {
        let home = try Environment["HOME"] ?? ""
        let folder = try folder ?? Environment["PASSWORD_STORE_DIR"] ?? "\(home)/.password-store"
        let store = try options.store(for: .making)
        try store.openIfLocked()
        let items = try PassStore(folder: folder).items()
        try migration.run(store, .items(items), named: folder) { .string($0, accessibility: $1) }
    }
}

/// A folder with a file for each password.
private struct PassStore {
    let folder: String

    func items() throws -> [String: Data] {
        if realPath(folder) == nil {
            throw Failure(.noSuchItem, "There is no store of pass in \(folder.onOneLine). Name its folder.")
        }
        // Where pinentry asks.
        if let terminal = ttyname(STDIN_FILENO) { setenv("GPG_TTY", terminal, 0) }
        var items: [String: Data] = [:]
        for file in try files() {
            for (key, value) in try parts(of: decrypted(file), named: String(file.dropLast(4))) {
                if let other = items.updateValue(value, forKey: key), other != value {
                    throw Failure(
                        .conflict,
                        "Two different values would become \(key.onOneLine), one of them out of \(file.onOneLine). Nothing was stored."
                    )
                }
            }
        }
        return items
    }

    /// The passwords in a folder of the store. Links to folders are followed, as by `pass ls`, but not in a circle.
    private func files(in inside: String = "", of outer: [String] = []) throws -> [String] {
        guard let path = realPath("\(folder)/\(inside)"), !outer.contains(path) else { return [] }
        guard let names = try? FileManager.default.contentsOfDirectory(atPath: path) else {
            throw Failure(.inputOutput, "\(path.onOneLine) cannot be read. Nothing was stored.")
        }
        return try names.sorted().filter { !Self.isOfOthers($0) }.flatMap { (name) -> [String] in
            var status = stat()
            guard stat("\(path)/\(name)", &status) == 0 else { return [] }
            guard status.st_mode & S_IFMT == S_IFDIR else {
                return name.hasSuffix(".gpg") ? [inside + name] : []
            }
            return try files(in: "\(inside)\(name)/", of: outer + [path])
        }
    }

    /// Whether git, an extension of pass, Syncthing, Emacs or macOS has put it beside passwords.
    private static func isOfOthers(_ name: String) -> Bool {
        [".git", ".extensions", ".stversions", ".gpg"].contains(name) || name.hasPrefix(".#")
            || name.hasPrefix("._")
    }

    private func decrypted(_ file: String) throws -> Data {
        let words = ["gpg", "--quiet", "--batch", "--decrypt", "--", "\(folder)/\(file)"]
        do { return try PipedProgram.output(ofWords: words, input: Data()) } catch let failed
            as PipedProgram.Failed
        {
            let reason = failed.status == 127 ? "there is no gpg" : "gpg ended with \(failed.status)"
            throw Failure(.conflict, "\(file.onOneLine) cannot be decrypted: \(reason). Nothing was stored.")
        }
    }

    private func parts(of text: Data, named key: String) -> [String: Data] {
        var lines = text.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        var parts = [key: lines.removeFirst()]
        parts["\(key)/otp"] = lines.firstIndex { $0.starts(with: "otpauth://".utf8) }.map {
            lines.remove(at: $0)
        }
        let rest = lines.joined(separator: [UInt8(ascii: "\n")])
        if rest.contains(where: { $0 != UInt8(ascii: "\n") }) { parts["\(key)/notes"] = Data(rest) }
        return parts
    }
}
