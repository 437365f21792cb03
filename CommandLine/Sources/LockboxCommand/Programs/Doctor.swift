import ArgumentParser
import CProcess
@_spi(Extensions) import Lockbox
@_spi(Extensions) import LockboxStore

struct DoctorCommand: Command {
    static let help: CommandHelp = """
        doctor: Find tokens in plain text, and what is wrong with the store's set-up.

        Looks into the files where ten programs keep tokens, and says how to move them into the store, and how the \
        program gets them from then on. It never shows a token, changes nothing and needs no passcode. The status is \
        4 if it has found something. --move stores the tokens of one program under a prefix of its own, and takes them out \
        of its file. Where a file is not as simple as usual, or belongs to another user, nothing is moved, and you have to look.

        Example: lockbox doctor --move npm
        """

    @Flag(help: "Print a JSON object.")
    var json = false

    @Option(
        help: "Move the tokens of this program into the store.",
        completion: .list(Program.allCases.map(\.rawValue))
    )
    var move: String?

    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    private struct Report: Encodable {
        struct Place: Encodable {
            let program: String
            let file: String
            var tokens = 0
            /// Missing if there is no token, or if the user has to look.
            var move: String?
            let use: String
            var error: String?

            var isFinding: Bool { tokens > 0 || error != nil }
        }

        struct Finding: Encodable {
            let problem: String
            let advice: String
        }

        let places: [Place]
        let store: [Finding]
        let keyring: String?
    }

    func validate() throws {
        if move != nil, options.prefix != nil {
            throw ValidationError("--move has a prefix for each program. Leave out --prefix.")
        }
    }

    func run() throws {
        if let move { return try self.move(move) }
        let places = Program.allCases.flatMap { program in program.files.map { Self.look(program, $0) } }
        let report = Report(places: places, store: findings(), keyring: Self.keyring)
        if json { try Output.json(report) } else { try print(report) }
        let found = report.places.count(where: \.isFinding)
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
        for place in report.places where place.isFinding {
            try Output.line("")
            try Output.line("\(place.program): \(place.error ?? place.file)")
            try Output.line("  move  \(place.move ?? "by hand: \(Program(rawValue: place.program)!.byHand)")")
            try Output.line("  use   \(place.use)")
        }
        if let keyring = report.keyring {
            for line in ["", "The keyring", "  \(keyring)"] { try Output.line(line) }
        }
        if !report.store.isEmpty { for line in ["", "The store"] { try Output.line(line) } }
        for finding in report.store { try Output.line("  \(finding.problem): \(finding.advice)") }
    }

    private static func look(_ program: Program, _ file: String) -> Report.Place {
        var place = Report.Place(program: program.rawValue, file: file, use: program.use)
        do {
            if let lines = try program.contents(of: file)?.lines {
                let token = program.token
                place.tokens = lines.reduce(0) { $0 + $1.matches(of: token).count }
                if program.edit(lines) != nil { place.move = "lockbox doctor --move \(program)" }
                if program == .netrc, place.tokens > 0 {
                    place.move = "lockbox import-netrc \(file.quotedForShell) --remove"
                }
            }
        } catch { place.error = Failure(error).message }
        return place
    }

    /// Stores the tokens of a file, and then takes them out of it.
    private func move(_ name: String) throws {
        guard let program = Program(rawValue: name) else {
            let names = Program.allCases.map(\.rawValue).joined(separator: ", ")
            throw ValidationError("There is no program \(name). They are \(names).")
        }
        guard let (file, edit) = try program.movable() else {
            let files = program.files.joined(separator: " and ")
            throw Failure(
                .noSuchItem,
                "\(files) has no token that a command can move. By hand: \(program.byHand). Nothing was changed."
            )
        }
        let store = try options.choice.store(prefix: program.prefix, for: .making)
        try edit.migration(from: file).run(in: store, keys: edit.items.map(\.key))
        try store.report("use: \(program.use)")
        if edit.stay.isEmpty { return }
        throw Failure(
            .conflict,
            "\(file.path) keeps line \(edit.stay.map(String.init).joined(separator: ", line ")): git is never given a user or password with "
                + "such a control character."
        )
    }

    private func findings() -> [Report.Finding] {
        var found: [Report.Finding] = []
        func add(_ problem: String, _ advice: String, if isFound: Bool = true) {
            if isFound { found.append(Report.Finding(problem: problem, advice: advice)) }
        }
        do {
            let store = try options.choice.store(for: .any)
            guard let status = try store.backend.status() else {
                try store.check(for: .making)
                return []
            }
            for finding in try store.backend.findings() {
                let isOld = finding.location.split(separator: "/").last?.hasPrefix("keybag") == true
                add(
                    "\(finding.location): \(finding.reason)",
                    isOld ? "an old keybag opens with an old passcode: remove it" : "see `lockbox verify`"
                )
            }
            for finding in try store.backend.keyFindings() {
                add("\(finding.location) is damaged or missing", "one of two is left: `lockbox rotate`")
            }
            let slots = status.slots
            if slots.isEmpty {
                add("it has no passcode", "a reader of its files has everything: `lockbox passcode set`")
            } else {
                let recovery = "a forgotten passcode loses everything: `lockbox passcode recovery`"
                let hasCode = slots.contains { $0.kind == .recoveryCode }
                add("it has no recovery code", recovery, if: !hasCode)
                for slot in slots where slot.isOlderThanRevocation {
                    let name = "slot \(slot.id.prefix(12)) (\(slot.kind))"
                    add("\(name) \(SlotDescription.isOld)", SlotDescription.danger)
                }
                let isOpen = status.unlockScope != nil && status.unlockedUntil == nil
                let lock = "`lockbox lock`, then `lockbox unlock --timeout 8h`"
                add("it is unlocked without an end", lock, if: isOpen)
                let keyring = "no `lockbox unlock` lasts: allow keyctl, or pass --passcode-file"
                add("the kernel keeps no keys here", keyring, if: has_user_keyring() == 0)
            }
            if let file = store.backend.unwritableMemory {
                let remedy = "make its folder yours, writable for nobody else, or set XDG_STATE_HOME"
                add("\(file) cannot be written", "an older or replaced store goes unnoticed: \(remedy)")
            }
            let isOld = status.isInterrupted || !status.olderEpochs.isEmpty
            add("a change of keys is not complete", "old keys still open items: `lockbox rotate`", if: isOld)
            try store.checkGiven()
        } catch { add("it cannot be used", Failure(error).message) }
        return found
    }
}

/// A program that keeps tokens in a file.
private enum Program: String, CaseIterable {
    case git, netrc, docker, gh, npm, psql, aws, pypi, kubectl, claude

    /// The files, where the program itself looks for them.
    var files: [String] {
        func named(_ variable: String) -> String? { try? Environment[variable] }
        let home = named("HOME") ?? ""
        let config = named("XDG_CONFIG_HOME") ?? "\(home)/.config"
        let path =
            switch self {
            case .git: "\(home)/.git-credentials"
            case .netrc: named("NETRC") ?? "\(home)/.netrc"
            case .docker: "\(named("DOCKER_CONFIG") ?? "\(home)/.docker")/config.json"
            case .gh: "\(named("GH_CONFIG_DIR") ?? "\(config)/gh")/hosts.yml"
            case .npm: named("NPM_CONFIG_USERCONFIG") ?? "\(home)/.npmrc"
            case .psql: named("PGPASSFILE") ?? "\(home)/.pgpass"
            case .aws: named("AWS_SHARED_CREDENTIALS_FILE") ?? "\(home)/.aws/credentials"
            case .pypi: "\(home)/.pypirc"
            case .kubectl: named("KUBECONFIG") ?? "\(home)/.kube/config"
            case .claude: "\(named("CLAUDE_CONFIG_DIR") ?? "\(home)/.claude")/.credentials.json"
            }
        return self == .kubectl ? path.split(separator: ":").map(String.init) : [path]
    }

    /// Found once for each token, in whatever form.
    var token: Regex<Substring> {
        switch self {
        case .git: /:\/\/[^\/@]*:[^\/@]+@/
        case .netrc: /\b(?:password|account)\b/
        case .docker: /"(?:auth|identitytoken)"\s*:\s*"[^"]/
        case .gh: /oauth_token["']?\s*:\s*\S/
        case .npm: /_(?:authToken|auth|password)["']?\s*=\s*[^$\s]/
        case .psql: /^[^#:][^:]*:[^:]*:[^:]*:[^:]*:.+/
        case .aws: /(?i)aws_(?:secret_access_key|session_token)\s*=\s*\S/
        case .pypi: /^\s*password\s*[=:]\s*\S/
        case .kubectl: /(?:token|password|client-key-data)["']?\s*:\s*\S/
        case .claude: /"(?:accessToken|refreshToken)"/
        }
    }

    /// The tokens have a prefix of their own, so no other program is given them.
    var prefix: String { self == .git ? InternetPassword.sharedPrefix : rawValue }

    /// How the program gets its tokens from Lockbox.
    var use: String {
        let helper = "git config --global credential.helper '!lockbox git-credential --unlock-for 1m'"
        return switch self {
        case .git, .netrc: helper
        case .docker: "\"credsStore\": \"lockbox\" in the file"
        case .gh: "lockbox exec --prefix gh --only GH_TOKEN gh …"
        case .npm: "lockbox exec --prefix npm --only NPM_TOKEN npm …"
        case .psql: "lockbox exec --prefix psql --only PGPASSWORD psql …"
        case .aws: "credential_process = lockbox get --prefix aws credentials"
        case .pypi:
            "lockbox exec --prefix pypi --only TWINE_PASSWORD twine upload …; for uv, --only TWINE_PASSWORD=UV_PUBLISH_TOKEN"
        case .kubectl: "an exec plugin in the file, with the command lockbox get --prefix kubectl credential"
        case .claude:
            "an API key, with \"apiKeyHelper\": \"lockbox get anthropic\" in \((try? Environment["HOME"]) ?? "")/.claude/settings.json, and /logout"
        }
    }

    /// How the user does what a move would.
    var byHand: String {
        func store(_ key: String, _ rest: String) -> String {
            "`lockbox set \(key) --prefix \(self)`, and \(rest)"
        }
        return switch self {
        case .git: "`git credential approve` for each, and take its line out"
        case .netrc: "`lockbox import-netrc`"
        case .docker:
            "put what it uses into the file, then `docker login` for each server, which takes the token out"
        case .gh: store("GH_TOKEN", "take its lines out")
        case .npm: store("NPM_TOKEN", "write ${NPM_TOKEN} in its place")
        case .psql: store("PGPASSWORD", "take its line out")
        case .aws:
            store(
                "credentials --json",
                "write what it uses in its place, and a key for each profile; the value is "
            )
                + #"{"Version":1,"AccessKeyId":"…","SecretAccessKey":"…"}"#
        case .pypi: store("TWINE_PASSWORD", "take its line out")
        case .kubectl:
            store("credential --json", "write the plugin in its place; the value is an ExecCredential")
        case .claude: "`lockbox set anthropic` with an API key, and what it uses"
        }
    }

    /// The first of its files from which a command can move the tokens.
    func movable() throws -> (file: ReplaceableFile, edit: Edit)? {
        for path in files {
            if let (file, lines) = try contents(of: path), let edit = edit(lines) { return (file, edit) }
        }
        return nil
    }

    func contents(of path: String) throws -> (file: ReplaceableFile, lines: [String])? {
        guard let file = try ReplaceableFile(path) else { return nil }
        try file.checkOwner()
        // A move could not write the rest of such a file as it was.
        guard let text = String(validating: file.bytes, as: UTF8.self) else {
            throw Failure(.conflict, "\(path) is not UTF-8.")
        }
        // A line that ends with CR and LF is none here, and so is not simple.
        return (file, text.split(omittingEmptySubsequences: false) { $0 == "\n" }.map(String.init))
    }

    /// The items to store, and the file afterwards.
    struct Edit {
        struct Item {
            let key: String
            let value: String
            var attributes: [String: String] = [:]
        }

        var items: [Item]
        var lines: [String]
        /// The numbers of the lines whose tokens would be lost to the program.
        var stay: [Int] = []

        func migration(from file: ReplaceableFile) -> FileMigration {
            let moved = items.map { item in
                Migration.Item(item.key, to: nil, accessibility: nil, attributes: item.attributes) {
                    String(decoding: try $0.bytes(), as: UTF8.self)
                }
            }
            let source = MigrationSource { _ in TokenItems(file: file, edit: self) }
            return FileMigration(file: file.path, source: source, items: moved, removes: true)
        }
    }

    /// Returns nil if the lines are not as simple as they usually are: then the user has to look.
    func edit(_ lines: [String]) -> Edit? {
        switch self {
        case .git: gitCredentials(lines)
        case .aws: awsCredentials(lines)
        case .gh: one(/(\s*)oauth_token: ([A-Za-z0-9_]+)/, of: lines, key: "GH_TOKEN")
        case .npm:
            one(/(\S*:_authToken=)([A-Za-z0-9_=.\/+-]+)/, of: lines, key: "NPM_TOKEN") { "\($0)${NPM_TOKEN}" }
        case .psql:
            one(/([^:\\#]+:[^:\\]*:[^:\\]*:[^:\\]*:)([^:\\]+)/, of: lines, key: "PGPASSWORD", among: /^[^#]/)
        case .pypi: one(/(\s*)password\s*[=:]\s*([A-Za-z0-9_-]+)/, of: lines, key: "TWINE_PASSWORD")
        case .kubectl:
            one(/(\s+)token: ([A-Za-z0-9_.-]+)/, of: lines, key: "credential") {
                "\($0)exec: {apiVersion: client.authentication.k8s.io/v1, command: lockbox, args: [get, --prefix, kubectl, credential], interactiveMode: IfAvailable}"
            } value: {
                #"{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"\#($0)"}}"#
            }
        case .netrc, .docker, .claude: nil
        }
    }

    /// Moves the one token of a file, if its lines are as simple as that. gh writes it twice.
    ///
    /// - Parameter others: Found in the one line that there may be. By default, the token is found in all that have the same.
    private func one(
        _ line: Regex<(Substring, Substring, Substring)>,
        of lines: [String],
        key: String,
        among others: Regex<Substring>? = nil,
        replacement: (Substring) -> String? = { _ in nil },
        value: (Substring) -> String = { String($0) }
    ) -> Edit? {
        let single = others ?? token
        let found = lines.indices.filter { lines[$0].contains(single) }
        let parts = found.compactMap { lines[$0].wholeMatch(of: line)?.output }
        guard let token = parts.first?.2, parts.count == found.count, parts.allSatisfy({ $0.2 == token }),
            others == nil || found.count == 1
        else {
            return nil
        }
        var edit = Edit(items: [Edit.Item(key: key, value: value(token))], lines: lines)
        for (index, part) in zip(found, parts).reversed() {
            edit.lines.replaceSubrange(index...index, with: replacement(part.1).map { [$0] } ?? [])
        }
        return edit
    }

    /// URLs, one in each line, with what is not simple in %XX. Paths do not count, as git ignores them by default.
    private func gitCredentials(_ lines: [String]) -> Edit? {
        var edit = Edit(items: [], lines: [])
        for (index, line) in lines.enumerated() where !line.isEmpty {
            let form = /(https?):\/\/([^:\/@\s]+):([^:\/@\s]+)@([A-Za-z0-9.-]+)(?::([0-9]{1,5}))?(?:\/\S*)?/
            guard let parts = line.wholeMatch(of: form), let account = References.decoded(parts.2),
                let password = References.decoded(parts.3), parts.5.map({ UInt16($0) != nil }) ?? true
            else { return nil }
            // Its protocol has no place for these.
            if account.hasControlCharacters || password.utf8.contains(where: { [0, 10, 13].contains($0) }) {
                edit.stay.append(index + 1)
                edit.lines.append(line)
                continue
            }
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
            edit.items.append(Edit.Item(key: item.key.name, value: password, attributes: item.searchable))
        }
        if !edit.stay.isEmpty { edit.lines.append("") }  // the last newline
        return edit.items.isEmpty ? nil : edit
    }

    /// One profile, whose two lines follow each other.
    private func awsCredentials(_ lines: [String]) -> Edit? {
        let found = lines.indices.filter { lines[$0].contains(/(?i)aws_/) }
        guard found.count == 2, found[1] == found[0] + 1,
            let id = lines[found[0]].wholeMatch(of: /aws_access_key_id\s*=\s*([A-Z0-9]+)/)?.1,
            let secret = lines[found[1]].wholeMatch(of: /aws_secret_access_key\s*=\s*([A-Za-z0-9\/+=]+)/)?.1
        else { return nil }
        let value = #"{"Version":1,"AccessKeyId":"\#(id)","SecretAccessKey":"\#(secret)"}"#
        var edit = Edit(items: [Edit.Item(key: "credentials", value: value)], lines: lines)
        let process = "credential_process = lockbox get --prefix aws credentials"
        edit.lines.replaceSubrange(found[0]...found[1], with: [process])
        return edit
    }
}

/// The tokens of a file. They leave it together.
private struct TokenItems: SourceItems {
    let file: ReplaceableFile
    let edit: Program.Edit

    func keys(unreadable: (UnreadableItem) throws -> Void) -> [String] { edit.items.map(\.key) }

    func item(forKey key: String) -> SourceItem? {
        edit.items.first { $0.key == key }.map { SourceItem(.bytes(Data($0.value.utf8), isOwn: true)) }
    }

    func holds(_ key: String) -> Bool { true }

    func checkRemoval() throws { try file.checkReplacement() }

    func remove(_ items: [String: SourceItem]) throws -> Set<String> {
        let isReplaced =
            try items.count == edit.items.count
            && file.replace(with: Array(edit.lines.joined(separator: "\n").utf8))
        return isReplaced ? [] : Set(items.keys)
    }
}
