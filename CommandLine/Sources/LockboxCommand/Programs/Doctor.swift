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
            4 if it has found something.

            Example: lockbox doctor
            """
    )

    @Flag(help: "Print a JSON object.")
    var json = false

    @OptionGroup(title: StoreHelp.title) var options: StoreOptions

    private struct Report: Encodable {
        struct Place: Encodable {
            let program: String
            let file: String
            let tokens: Int
            /// Missing if there is no token, or if it takes more than one command.
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
        let home = (try? Environment["HOME"]) ?? ""
        let report = Report(places: PlainTextPlace.all(home).map(look), store: findings())
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
            try Output.line("  move  \(place.move ?? "by hand: there is more than one, or no command fits")")
            try Output.line("  use   \(place.use)")
        }
        if !report.store.isEmpty { try Output.line("\nThe store") }
        for finding in report.store {
            try Output.line("  \(finding.problem.onOneLine): \(finding.advice)")
        }
    }

    /// Counts the lines with a token.
    private func look(_ place: PlainTextPlace) -> Report.Place {
        var (tokens, error) = (0, String?.none)
        let file = open(place.file, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        if file >= 0 {
            defer { close(file) }
            do {
                let text = String(
                    decoding: try Input.all(from: file, place.file, limit: 1 << 20),
                    as: UTF8.self
                )
                tokens = text.split(whereSeparator: \.isNewline).count { $0.contains(place.token) }
            } catch let caught { error = Failure(caught).message }
        } else if errno != ENOENT, errno != ENOTDIR {
            error = "\(place.file) cannot be read: \(String(cString: strerror(errno)))"
        }
        let isMovable = tokens > 0 && (tokens == 1 || place.movesAll)
        return Report.Place(
            program: place.program,
            file: place.file,
            tokens: tokens,
            move: isMovable ? place.move : nil,
            use: place.use,
            error: error
        )
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
    let program: String
    let file: String
    /// Found in each line with a token.
    let token: Regex<Substring>
    /// A command that stores the tokens and takes them out of the file.
    let move: String?
    /// Whether the command moves several.
    var movesAll = false
    /// How the program gets them then.
    let use: String

    static func all(_ home: String) -> [PlainTextPlace] {
        let config = (try? Environment["XDG_CONFIG_HOME"]) ?? "\(home)/.config"
        /// The shell's word for a path.
        func word(_ path: String) -> String { "'\(path.replacing("'", with: "'\\''"))'" }
        /// Stores what a sed script prints under a key, and then edits the file with another.
        func sed(_ file: String, _ read: String, _ key: String, _ edit: String) -> String {
            "sed -n '\(read)' \(word(file)) | lockbox set \(key) && sed -i '\(edit)' \(word(file))"
        }
        func exec(_ key: String, _ program: String) -> String { "lockbox exec --only \(key) \(program)" }
        let (git, netrc) = ("\(home)/.git-credentials", "\(home)/.netrc")
        let (docker, gh) = ("\(home)/.docker/config.json", "\(config)/gh/hosts.yml")
        let (npm, pgpass, aws) = ("\(home)/.npmrc", "\(home)/.pgpass", "\(home)/.aws/credentials")
        let (pypi, kube, claude) = (
            "\(home)/.pypirc", "\(home)/.kube/config", "\(home)/.claude/.credentials.json"
        )
        let helper = "git config --global credential.helper '!lockbox git-credential --unlock-for 1m'"
        let kubeValue =
            #"{"apiVersion":"client.authentication.k8s.io\/v1","kind":"ExecCredential","status":{"token":"\1"}}"#
        let kubeUser =
            "exec: {apiVersion: client.authentication.k8s.io\\/v1, command: lockbox, args: [get, kube], interactiveMode: IfAvailable}"
        return [
            PlainTextPlace(
                program: "git",
                file: git,
                token: /:\/\/[^\/@]*:[^\/@]+@/,
                move: "while read -r url; do echo \"url=$url\" | git -c credential.helper= "
                    + "-c credential.helper='!lockbox git-credential' credential approve || break; done <\(word(git)) && rm \(word(git))",
                movesAll: true,
                use: helper
            ),
            PlainTextPlace(
                program: "curl, netrc",
                file: netrc,
                token: /\bpassword\s+\S/,
                move: "lockbox import-netrc --remove \(word(netrc))",
                movesAll: true,
                use: helper
            ),
            PlainTextPlace(
                program: "Docker",
                file: docker,
                token: /"auth"\s*:\s*"[^"]+"/,
                move:
                    "jq -c '.auths | to_entries[] | select(.value.auth) | {ServerURL: .key} + (.value.auth | @base64d | "
                    + "{Username: sub(\":.*\"; \"\"), Secret: sub(\"[^:]*:\"; \"\")})' \(word(docker)) | "
                    + "while read -r login; do echo \"$login\" | lockbox docker-credential store || break; done && "
                    + "jq 'del(.auths[].auth) | .credsStore = \"lockbox\"' \(word(docker)) >\(word(docker + ".new")) && "
                    + "mv \(word(docker + ".new")) \(word(docker))",
                movesAll: true,
                use: "\"credsStore\": \"lockbox\" in the file, which the command puts there"
            ),
            PlainTextPlace(
                program: "gh",
                file: gh,
                token: /oauth_token:\s*\S/,
                move: sed(gh, "s/^ *oauth_token: *//p", "GH_TOKEN", "/oauth_token:/d"),
                use: exec("GH_TOKEN", "gh …")
            ),
            PlainTextPlace(
                program: "npm",
                file: npm,
                token: /_authToken\s*=\s*[^$\s]/,
                move: sed(
                    npm,
                    "s/.*_authToken *= *//p",
                    "NPM_TOKEN",
                    "s/_authToken *=.*/_authToken=${NPM_TOKEN}/"
                ),
                use: exec("NPM_TOKEN", "npm …")
            ),
            PlainTextPlace(
                program: "PostgreSQL",
                file: pgpass,
                token: /^[^#:]*:[^:]*:[^:]*:[^:]*:[^:]+/,
                move: sed(pgpass, "s/.*://p", "PGPASSWORD", "/:/d"),
                use: exec("PGPASSWORD", "psql …")
            ),
            PlainTextPlace(
                program: "AWS",
                file: aws,
                token: /aws_(?:secret_access_key|session_token)\s*=\s*\S/,
                move: "awk '/^aws_access_key_id/ {sub(/^[^=]*= */, \"\"); i = $0} "
                    + "/^aws_secret_access_key/ {sub(/^[^=]*= */, \"\"); s = $0} END {printf "
                    + "\"{\\\"Version\\\":1,\\\"AccessKeyId\\\":\\\"%s\\\",\\\"SecretAccessKey\\\":\\\"%s\\\"}\", i, s}' \(word(aws)) | "
                    + "lockbox set aws && sed -i -e '/^aws_secret_access_key/d' "
                    + "-e 's/^aws_access_key_id.*/credential_process = lockbox get aws/' \(word(aws))",
                use: "credential_process = lockbox get aws, which the command puts there"
            ),
            PlainTextPlace(
                program: "PyPI",
                file: pypi,
                token: /^\s*password\s*[=:]\s*\S/,
                move: sed(pypi, "s/^ *password *[=:] *//p", "TWINE_PASSWORD", "/^ *password *[=:]/d"),
                use: exec("TWINE_PASSWORD", "twine upload …") + "; for uv, UV_PUBLISH_TOKEN"
            ),
            PlainTextPlace(
                program: "kubectl",
                file: kube,
                token: /^\s*(?:- )?token:\s*\S/,
                move: sed(kube, "s/^ *token: *\\(.*\\)/\(kubeValue)/p", "kube", "s/token: .*/\(kubeUser)/"),
                use: "an exec plugin in the file, which the command puts there"
            ),
            PlainTextPlace(
                program: "Claude Code",
                file: claude,
                token: /"(?:accessToken|refreshToken)"/,
                move: nil,
                use:
                    "\"apiKeyHelper\": \"lockbox get anthropic\" in \(home)/.claude/settings.json, with an API key"
            ),
        ]
    }
}
