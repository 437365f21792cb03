import ArgumentParser
import CProcess
import Lockbox
@_spi(Extensions) import LockboxStore

struct DoctorCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract: "Find tokens in plain text, and what is wrong with the store's set-up.",
        discussion: """
            Looks into the files where ten programs keep tokens, and says how to move them into the store, and how the \
            program gets them from then on. It never shows a token, changes nothing and needs no passcode. The status is \
            4 if it has found something. --move stores the tokens of one program, and takes them out of its file. Where a \
            file is not as simple as usual, nothing is moved, and somebody has to look.

            Example: lockbox doctor --move npm
            """
    )

    @Flag(help: "Print a JSON object.")
    var json = false

    @Option(help: "Move the tokens of this program into the store.")
    var move: String?

    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    private struct Report: Encodable {
        struct Place: Encodable {
            let program: String
            let file: String
            let tokens: Int
            /// Missing if there is no token, or if somebody has to look.
            let move: String?
            let use: String
            let error: String?
        }

        struct Finding: Encodable {
            let problem: String
            let advice: String
        }

        let places: [Place]
        let store: [Finding]
    }

    func run() throws {
        if let move { return try self.move(move) }
        let report = Report(places: PlainTextPlace.all().map(Self.look), store: findings())
        if json { try Output.json(report) } else { try print(report) }
        let found = report.places.count { $0.tokens > 0 || $0.error != nil }
        if found + report.store.count == 0 { return }
        throw Failure(
            .conflict,
            "Places with tokens in plain text: \(found). Problems of the store: \(report.store.count)."
        )
    }

    private func print(_ report: Report) throws {
        var table = Table(header: ["PROGRAM", "TOKENS", "FILE"])
        table.rows = report.places.map { [$0.program, $0.error == nil ? "\($0.tokens)" : "?", $0.file] }
        try table.print()
        for place in report.places where place.tokens > 0 || place.error != nil {
            try Output.line("\n\(place.program): \((place.error ?? place.file).onOneLine)")
            try Output.line("  move  \(place.move ?? "by hand")")
            try Output.line("  use   \(place.use)")
        }
        if !report.store.isEmpty { try Output.line("\nThe store") }
        for finding in report.store {
            try Output.line("  \(finding.problem.onOneLine): \(finding.advice)")
        }
    }

    private static func look(_ place: PlainTextPlace) -> Report.Place {
        var (tokens, edit, error) = (0, PlainTextPlace.Edit?.none, String?.none)
        do {
            if let lines = try place.contents()?.lines {
                tokens = lines.count { $0.contains(place.token) }
                edit = place.edit(lines)
            }
        } catch let caught { error = Failure(caught).message }
        return Report.Place(
            program: place.program,
            file: place.file,
            tokens: tokens,
            move: edit.map { _ in "lockbox doctor --move \(place.program)" },
            use: place.use,
            error: error
        )
    }

    /// Stores the tokens of a file, and then takes them out of it.
    private func move(_ program: String) throws {
        let places = PlainTextPlace.all()
        guard let place = places.first(where: { $0.program == program }) else {
            throw ValidationError(
                "There is no program \(program). They are \(places.map(\.program).joined(separator: ", "))."
            )
        }
        guard let (file, lines) = try place.contents(), let edit = place.edit(lines) else {
            throw Failure(
                .noSuchItem,
                "\(place.file.onOneLine) has no token that a command can move. Nothing was changed."
            )
        }
        let store = try options.choice.store(prefix: edit.prefix)
        try store.unlocking {
            // Nothing takes the place of another item without a word. An interrupted move has stored the same values.
            let new = try edit.items.filter { item in
                let old = try store.backend.value(for: ItemKey(prefix: store.prefix, key: item.key), now: nil)
                guard let old else { return true }
                if try old.plain(item.key) == Data(item.value.utf8) { return false }
                throw Failure(
                    .conflict,
                    "There is another value for \(item.key.onOneLine). Rename it, for example with `lockbox move`. Nothing was changed."
                )
            }
            try store.lockbox.batch {
                for item in new {
                    try $0.archiveObject(
                        item.value,
                        forKey: item.key,
                        options: WriteOptions(attributes: .set(item.attributes), policy: .addOnly)
                    )
                }
            }
        }
        guard try file.replace(with: Array(edit.lines.joined(separator: "\n").utf8)) else {
            throw Failure(
                .conflict,
                "\(place.file.onOneLine) was changed meanwhile. The tokens are stored; run this again."
            )
        }
        for item in edit.items {
            try store.report("\(item.key.onOneLine): stored, and removed from the file")
        }
        try store.report("use: \(place.use)")
    }

    private func findings() -> [Report.Finding] {
        var found: [Report.Finding] = []
        func add(_ problem: String, _ advice: String) {
            found.append(Report.Finding(problem: problem, advice: advice))
        }
        do {
            let store = try options.choice.store(checksPasscode: false)
            guard let status = try store.backend.status() else { return [] }
            for finding in try store.storage.findings() {
                let isOld = finding.location.split(separator: "/").last?.hasPrefix("keybag") == true
                add(
                    "\(finding.location): \(finding.reason)",
                    isOld ? "an old keybag opens with an old passcode: remove it" : "see `lockbox verify`"
                )
            }
            if status.slots.isEmpty {
                add("it has no passcode", "whoever reads its files has everything: `lockbox passcode set`")
            } else {
                if !status.slots.contains(where: { $0.kind == .recoveryCode }) {
                    add(
                        "it has no recovery code",
                        "a forgotten passcode loses everything: `lockbox passcode recovery`"
                    )
                }
                if status.unlockScope != nil, status.unlockedUntil == nil {
                    add("it is unlocked without an end", "`lockbox lock`, then `lockbox unlock --timeout 8h`")
                }
                if has_user_keyring() == 0 {
                    add(
                        "the kernel keeps no keys here",
                        "no `lockbox unlock` lasts: allow keyctl, or pass --passcode-file"
                    )
                }
            }
            if status.isInterrupted || !status.olderEpochs.isEmpty {
                add("a change of keys is not complete", "old keys still open items: `lockbox rotate`")
            }
        } catch { add("it cannot be used", Failure(error).message) }
        return found
    }
}

/// A file in which a program keeps tokens.
private struct PlainTextPlace {
    struct Item {
        let key: String
        let value: String
        var attributes: [String: String] = [:]
    }

    /// The items to store, and the file afterwards.
    struct Edit {
        /// Nil for the prefix of the other commands.
        var prefix: String?
        var items: [Item]
        var lines: [String]
    }

    let program: String
    let file: String
    /// Found in each line with a token, in whatever form.
    let token: Regex<Substring>
    /// How the program gets its tokens from Lockbox.
    let use: String
    /// Nil if the lines are not as simple as they usually are: then somebody has to look.
    var edit: ([String]) -> Edit? = { _ in nil }

    func contents() throws -> (file: ReplaceableFile, lines: [String])? {
        guard let file = try ReplaceableFile(file) else { return nil }
        // A move could not write the rest of such a file as it was.
        guard let text = String(validating: file.bytes, as: UTF8.self) else {
            throw Failure(.conflict, "\(self.file.onOneLine) is not UTF-8.")
        }
        // A line that ends with CR and LF is none here, and so is not simple.
        return (file, text.split(omittingEmptySubsequences: false) { $0 == "\n" }.map(String.init))
    }

    /// Moves the one token of a file, if its line is as simple as that.
    private static func one(
        _ token: Regex<Substring>,
        _ line: Regex<(Substring, Substring, Substring)>,
        _ key: String,
        value: @escaping (Substring) -> String = { String($0) },
        replacement: @escaping (Substring) -> String?
    ) -> ([String]) -> Edit? {
        { lines in
            let found = lines.indices.filter { lines[$0].contains(token) }
            guard found.count == 1, let parts = lines[found[0]].wholeMatch(of: line) else { return nil }
            var edit = Edit(items: [Item(key: key, value: value(parts.2))], lines: lines)
            edit.lines.replaceSubrange(found[0]...found[0], with: replacement(parts.1).map { [$0] } ?? [])
            return edit
        }
    }

    static func all() -> [PlainTextPlace] {
        let home = (try? Environment["HOME"]) ?? ""
        let config = (try? Environment["XDG_CONFIG_HOME"]) ?? "\(home)/.config"
        func exec(_ key: String, _ program: String) -> String { "lockbox exec --only \(key) \(program)" }
        let helper = "git config --global credential.helper '!lockbox git-credential --unlock-for 1m'"
        let (npm, gh, pypi) = (
            /_(?:authToken|auth|password)["']?\s*=\s*[^$\s]/, /oauth_token["']?\s*:\s*\S/,
            /^\s*password\s*[=:]\s*\S/
        )
        let kube = /(?:token|password|client-key-data)["']?\s*:\s*\S/
        return [
            PlainTextPlace(
                program: "git",
                file: "\(home)/.git-credentials",
                token: /:\/\/[^\/@]*:[^\/@]+@/,
                use: helper,
                edit: gitCredentials
            ),
            PlainTextPlace(
                program: "netrc",
                file: "\(home)/.netrc",
                token: /\b(?:password|account)\b/,
                use: "`lockbox import-netrc ~/.netrc --remove`, then \(helper)"
            ),
            PlainTextPlace(
                program: "docker",
                file: "\(home)/.docker/config.json",
                token: /"(?:auth|identitytoken)"/,
                use:
                    "put \"credsStore\": \"lockbox\" into the file, then `docker login` for each server: it takes the token out"
            ),
            PlainTextPlace(
                program: "gh",
                file: "\(config)/gh/hosts.yml",
                token: gh,
                use: exec("GH_TOKEN", "gh …"),
                edit: one(gh, /(\s*)oauth_token: ([A-Za-z0-9_]+)/, "GH_TOKEN") { _ in nil }
            ),
            PlainTextPlace(
                program: "npm",
                file: "\(home)/.npmrc",
                token: npm,
                use: exec("NPM_TOKEN", "npm …"),
                edit: one(npm, /(\S*:_authToken=)([A-Za-z0-9_=.\/+-]+)/, "NPM_TOKEN") { "\($0)${NPM_TOKEN}" }
            ),
            PlainTextPlace(
                program: "psql",
                file: "\(home)/.pgpass",
                token: /^[^#:][^:]*:[^:]*:[^:]*:[^:]*:.+/,
                use: exec("PGPASSWORD", "psql …"),
                edit: one(/^[^#]/, /([^:\\#]+:[^:\\]*:[^:\\]*:[^:\\]*:)([^:\\]+)/, "PGPASSWORD") { _ in nil }
            ),
            PlainTextPlace(
                program: "aws",
                file: "\(home)/.aws/credentials",
                token: /(?i)aws_(?:secret_access_key|session_token)\s*=\s*\S/,
                use: "credential_process = lockbox get aws, which the move puts into the file",
                edit: awsCredentials
            ),
            PlainTextPlace(
                program: "pypi",
                file: "\(home)/.pypirc",
                token: pypi,
                use: exec("TWINE_PASSWORD", "twine upload …") + "; for uv, UV_PUBLISH_TOKEN",
                edit: one(pypi, /(\s*)password\s*[=:]\s*([A-Za-z0-9_-]+)/, "TWINE_PASSWORD") { _ in nil }
            ),
            PlainTextPlace(
                program: "kubectl",
                file: "\(home)/.kube/config",
                token: kube,
                use: "an exec plugin, which the move puts into the file",
                edit: one(kube, /(\s+)token: ([A-Za-z0-9_.-]+)/, "kube") {
                    #"{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"\#($0)"}}"#
                } replacement: {
                    "\($0)exec: {apiVersion: client.authentication.k8s.io/v1, command: lockbox, args: [get, kube], interactiveMode: IfAvailable}"
                }
            ),
            PlainTextPlace(
                program: "claude",
                file: "\(home)/.claude/.credentials.json",
                token: /"(?:accessToken|refreshToken)"/,
                use:
                    "an API key, with \"apiKeyHelper\": \"lockbox get anthropic\" in \(home)/.claude/settings.json, and /logout"
            ),
        ]
    }

    /// URLs, one in each line, with what is not simple in %XX. Paths do not count, as git ignores them by default.
    private static func gitCredentials(_ lines: [String]) -> Edit? {
        var edit = Edit(prefix: InternetPassword.sharedPrefix, items: [], lines: [])
        for line in lines where !line.isEmpty {
            let form = /(https?):\/\/([^:\/@\s]+):([^:\/@\s]+)@([A-Za-z0-9.-]+)(?::([0-9]{1,5}))?(?:\/\S*)?/
            guard let parts = line.wholeMatch(of: form), let account = References.decoded(parts.2),
                let password = References.decoded(parts.3), !password.contains("\n"),
                parts.5.map({ UInt16($0) != nil }) ?? true
            else { return nil }
            let item = InternetPassword(
                server: parts.4.lowercased(),
                account: account,
                protocol: String(parts.1),
                port: parts.5.flatMap { Int($0) }
            )
            if let other = edit.items.first(where: { $0.key == item.key.name }) {
                if other.value != password { return nil }
                continue
            }
            edit.items.append(Item(key: item.key.name, value: password, attributes: item.searchable))
        }
        return edit.items.isEmpty ? nil : edit
    }

    /// One profile, whose two lines follow each other.
    private static func awsCredentials(_ lines: [String]) -> Edit? {
        let found = lines.indices.filter { lines[$0].contains(/(?i)aws_/) }
        guard found.count == 2, found[1] == found[0] + 1,
            let id = lines[found[0]].wholeMatch(of: /aws_access_key_id\s*=\s*([A-Z0-9]+)/)?.1,
            let secret = lines[found[1]].wholeMatch(of: /aws_secret_access_key\s*=\s*([A-Za-z0-9\/+=]+)/)?.1
        else { return nil }
        let value = #"{"Version":1,"AccessKeyId":"\#(id)","SecretAccessKey":"\#(secret)"}"#
        var edit = Edit(items: [Item(key: "aws", value: value)], lines: lines)
        edit.lines.replaceSubrange(found[0]...found[1], with: ["credential_process = lockbox get aws"])
        return edit
    }
}
