import Foundation
import Testing

/// The completion scripts, run by the shells themselves where these are installed.
@Suite struct CompletionTests {
    let sandbox: Sandbox

    init() throws {
        sandbox = try Sandbox()
        let bin = "\(sandbox.home)/bin"
        try FileManager.default.createDirectory(atPath: bin, withIntermediateDirectories: true)
        try FileManager.default.createSymbolicLink(
            atPath: "\(bin)/lockbox",
            withDestinationPath: Sandbox.executable
        )
        sandbox.environment["PATH"] = "\(bin):\(sandbox.environment["PATH"] ?? "")"
        for key in ["token", "tokyo", "other"] { try sandbox.lockbox("set", key, text: "v") }
        try sandbox.lockbox("set", "theirs", "--prefix", "other.app", text: "v")
    }

    /// What bash offers after these words.
    private func completions(_ words: String...) throws -> [String] {
        let script = """
            source <(lockbox --generate-completion-script bash)
            COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE} COMP_TYPE=9 COMP_KEY=9
            declare -F _lockbox >/dev/null || exit 9
            _lockbox lockbox "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
            printf '%s\\n' "${COMPREPLY[@]}"
            """
        let outcome = try sandbox.execution(
            ["bash", "-c", script, "bash"] + words,
            executable: "/usr/bin/env"
        ).run()
        #expect(outcome.status == 0, "\(outcome.error)")
        return outcome.output.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }
    }

    @Test func bashCompletesKeys() throws {
        #expect(try completions("lockbox", "get", "tok") == ["token", "tokyo"])
        #expect(try completions("lockbox", "remove", "other", "tok") == ["token", "tokyo"])
        #expect(try completions("lockbox", "get", "--prefix", "other.app", "t") == ["theirs"])
        #expect(try completions("lockbox", "get", "--prefix", "ot") == ["other.app"])
    }

    @Test func keysOfTheStoreThatIsNamed() throws {
        let elsewhere = "\(sandbox.home)/elsewhere"
        try sandbox.lockbox("set", "tokens", "--store", elsewhere, text: "v")
        #expect(try completions("lockbox", "get", "--store", elsewhere, "tok") == ["tokens"])
    }

    /// Keys may come from somebody else, and bash evaluates what it is offered.
    @Test func whatIsInAKeyIsNotRun() throws {
        let marker = "\(sandbox.home)/marker"
        for key in [
            "tok$(touch \(marker))", "tok`touch \(marker)`", "tok<(touch \(marker))",
            "tok${x:=$(touch \(marker))}",
        ] {
            try sandbox.lockbox("set", key, text: "v")
            try sandbox.lockbox("set", "k", "--prefix", key, text: "v")
        }
        #expect(try completions("lockbox", "get", "tok") == ["token", "tokyo"])
        #expect(try completions("lockbox", "get", "--prefix", "tok") == [])
        if try isThere("zsh") { _ = try zsh("lockbox get tok") }
        #expect(!FileManager.default.fileExists(atPath: marker))
    }

    @Test func zshCompletesKeys() throws {
        guard try isThere("zsh") else { return print("skipped: there is no zsh to complete in") }
        for user in ["alice", "bob"] {
            try sandbox.lockbox("set", "https://\(user)@h", "--prefix", "g", text: "v")
        }
        #expect(try zsh("lockbox get tok") == ["token", "tokyo"])
        #expect(try zsh("lockbox get --prefix other.app t") == ["theirs"])
        #expect(try zsh("lockbox get --prefix g http") == ["https://alice@h", "https://bob@h"])
    }

    /// fish completes only for somebody who types: this is what its script asks.
    @Test func fishIsGivenKeys() throws {
        var execution = sandbox.execution([
            "---completion", "get", "--", "positional@0", "2", "3", "lockbox", "get", "tok",
        ])
        execution.environment["SAP_SHELL"] = "fish"
        #expect(try execution.run().output == "token\ntokyo\n")
    }

    /// What zsh offers for this line. It completes only for somebody who types; what it would show is written to a file.
    private func zsh(_ line: String) throws -> [String] {
        let script = """
            zmodload zsh/zpty
            zpty shell zsh -f -i
            zpty -w shell 'PROMPT=; autoload -Uz compinit; compinit -u -D; source <(lockbox --generate-completion-script zsh)'
            zpty -w shell 'compdef _lockbox lockbox; bindkey "^I" complete-word'
            zpty -w shell 'compadd () { local -a words; builtin compadd -O words "$@"; print -l "<"$^words">" >> $HOME/offered; builtin compadd "$@" }'
            zpty -w shell 'rm -f $HOME/offered; print ready'
            zpty -r shell output '*ready*ready*'
            zpty -w -n shell "$1"$'\\t'
            zpty -w shell $'\\nprint over'
            zpty -r shell output '*over*over*'
            sort -u $HOME/offered | sed -n 's/^<\\(.*\\)>$/\\1/p'
            """
        let outcome = try sandbox.execution(
            ["zsh", "-f", "-c", script, "zsh", line],
            executable: "/usr/bin/env"
        ).run()
        return outcome.output.split(separator: "\n").map(String.init)
    }

    private func isThere(_ program: String) throws -> Bool {
        try sandbox.execution(["-c", "command -v \(program)"], executable: "/bin/sh").run().status == 0
    }

    @Test func bashCompletesCommandsAndOptions() throws {
        #expect(try completions("lockbox", "git-") == ["git-credential"])
        #expect(try completions("lockbox", "set", "--lab") == ["--label"])
        #expect(try completions("lockbox", "set", "--class", "whenU").contains("whenUnlocked"))
    }

    @Test func bashCompletesSlots() throws {
        try sandbox.setPasscode()
        struct Slot: Decodable { let id: String }
        let slots = try JSONDecoder().decode([Slot].self, from: sandbox.lockbox("slots", "--json").bytes)
        let id = try #require(slots.first).id
        #expect(try completions("lockbox", "slots", "remove", String(id.prefix(4))) == [id])
        #expect(try completions("lockbox", "slots", "rem") == ["remove"])
        #expect(try completions("lockbox", "accept") == ["accept-restored"])
    }

    @Test func aLockedOrDamagedStoreIsNoReasonToAsk() throws {
        try sandbox.setPasscode()
        #expect(try completions("lockbox", "get", "tok") == ["token", "tokyo"])
        try Data("x".utf8).write(to: URL(fileURLWithPath: "\(sandbox.store)/keybag"))
        #expect(try completions("lockbox", "get", "tok") == [])
    }

    @Test(arguments: ["bash", "zsh", "fish"])
    func theScriptsAreGoodShell(_ shell: String) throws {
        let script = try sandbox.lockbox("--generate-completion-script", shell)
        #expect(script.status == 0 && script.output.contains("git-credential"))
        let path = try sandbox.file("completion.\(shell)", script.output)
        guard try isThere(shell) else {
            return print("skipped: there is no \(shell) to check its completion script with")
        }
        let check = try sandbox.execution([shell, "-n", path], executable: "/usr/bin/env").run()
        #expect(check.status == 0, "\(check.error)")
    }
}
