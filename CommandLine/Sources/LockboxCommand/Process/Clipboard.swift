import ArgumentParser
import CProcess

/// Where `get`, `generate` and `otp` write a value.
struct ClipOptions: ParsableArguments {
    @Flag(
        name: .shortAndLong,
        help:
            "Copy it instead of printing it. The clipboard is cleared after 45 seconds, but not a terminal's (OSC 52)."
    )
    var clip = false

    func print(_ value: Data, _ store: Store) throws {
        if !clip { return try Output.value(value) }
        if try Clipboard.copy(value) {
            store.say("Copied. The clipboard is cleared in 45 seconds, unless something else is copied.")
        } else {
            store.say(
                "Copied by the terminal, which keeps it until something else is copied: nothing clears it."
            )
        }
    }
}

/// The clipboard of the display, or else that of the terminal.
enum Clipboard {
    private typealias Program = (display: String, copy: String, paste: String, clear: String)

    private static let programs: [Program] = [
        ("WAYLAND_DISPLAY", "wl-copy", "wl-paste -n", "wl-copy -c"),
        (
            "DISPLAY", "xclip -selection clipboard", "xclip -selection clipboard -o",
            "xclip -selection clipboard"
        ),
        ("DISPLAY", "xsel -ib", "xsel -ob", "xsel -cb"),
    ]

    /// Prints a line once the value is copied, and clears it if it is still there. It is neither an argument nor an exported variable.
    private static let script = """
        exec 2>/dev/null; cd /; unset value; value=$(cat; echo .)
        printf %s "${value%.}" | $1 >/dev/null && echo && exec >/dev/null || exit
        sleep 45; [ "$($2; echo .)" != "$value" ] || $3 </dev/null
        """

    /// Returns whether the clipboard will be cleared. That of a terminal cannot be read: what is in it then may be another program's.
    static func copy(_ value: Data) throws -> Bool {
        if String(validating: value, as: UTF8.self) == nil || value.contains(0) {
            throw Failure(
                .usage,
                "The value is not text, which a clipboard needs. Write it to a file or a pipe."
            )
        }
        for program in programs where Environment.isSet(program.display) {
            let words = ["sh", "-c", script, "lockbox", program.copy, program.paste, program.clear]
            let (input, output) = try PipedProgram.startDetached(words)
            defer { close(output) }
            Output.writeAll(value, to: input)
            close(input)
            if try !Input.all(from: output, "The clipboard").isEmpty { return true }
        }
        // Terminals take no more (xterm: 100,000 characters).
        if value.count > 74_000 { throw Failure(.usage, "The value is too long for a terminal's clipboard.") }
        try Terminal.show(
            "\u{1B}]52;c;\(value.base64EncodedString())\u{07}",
            orElse: Failure(
                .inputOutput,
                "There is no clipboard: neither a display with wl-copy, xclip or xsel, nor a terminal."
            )
        )
        return false
    }
}
