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

    @Test func bashCompletesCommandsAndOptions() throws {
        #expect(try completions("lockbox", "git-") == ["git-credential"])
        #expect(try completions("lockbox", "set", "--lab") == ["--label"])
        #expect(try completions("lockbox", "set", "--class", "whenU").contains("whenUnlocked"))
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
        guard try sandbox.execution(["-c", "command -v \(shell)"], executable: "/bin/sh").run().status == 0
        else {
            return print("skipped: there is no \(shell) to check its completion script with")
        }
        let check = try sandbox.execution([shell, "-n", path], executable: "/usr/bin/env").run()
        #expect(check.status == 0, "\(check.error)")
    }
}
