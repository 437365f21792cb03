import Foundation
import Testing

/// The picture on the front page is what the command shows today. `Scripts/picture` draws it anew.
@Suite struct PictureTests {
    let sandbox: Sandbox

    init() throws { sandbox = try Sandbox() }

    @Test(.needsKernelKeyring) func thePictureShowsWhatTheCommandDoes() throws {
        try makeProgram("deploy", "#!/bin/sh\necho \"deploying with a token of ${#TOKEN} characters\"\n")
        var picture = TerminalPicture(columns: 98)
        defer { _ = try? sandbox.lockbox("lock", "--all") }
        for (line, answers) in Self.session { try show(line, answers, in: &picture) }
        if ProcessInfo.processInfo.environment["LOCKBOX_DRAW_PICTURE"] != nil {
            try Data(picture.svg.utf8).write(to: URL(fileURLWithPath: Self.path))
        }
        let drawn = try String(contentsOfFile: Self.path, encoding: .utf8)
        #expect(
            Self.undated(picture.svg) == Self.undated(drawn),
            "run Scripts/picture and look at what it drew"
        )
    }

    private static let path = URL(fileURLWithPath: #filePath)
        .appendingPathComponent("../../../../../Sources/Lockbox/Documentation.docc/lockbox.svg")
        .standardized.path

    private static var session: [(line: String, answers: [Execution.Answer])] {
        [
            ("lockbox set token", [.init("Value: ", "8f14e45fceea167a\n")]),
            (
                "lockbox set database-url --label 'Web shop' --expires 30d",
                [.init("Value: ", "postgres://shop:correct-horse@db.example.com/shop\n")]
            ),
            ("lockbox list --long", []),
            ("lockbox exec --only token -- ./deploy", []),
            (
                "lockbox passcode set",
                [.init("passcode: ", "battery staple\n"), .init("Repeat it: ", "battery staple\n")]
            ),
            ("lockbox get token", [.init("Passcode of the store: ", "battery staple\n")]),
            ("lockbox unlock --timeout 8h", [.init("Passcode of the store: ", "battery staple\n")]),
            ("lockbox get token", []),
        ]
    }

    /// Runs a line as a shell at a terminal does.
    private func show(
        _ line: String,
        _ answers: [Execution.Answer],
        in picture: inout TerminalPicture
    ) throws {
        var execution = sandbox.execution(["-c", "cd \"$HOME\" && \(line)"], executable: "/bin/sh")
        let folder = URL(fileURLWithPath: Sandbox.executable).deletingLastPathComponent().path
        execution.environment["PATH"] = "\(folder):\(sandbox.environment["PATH"] ?? "")"
        execution.terminal = [0, 1, 2]
        execution.size.columns = UInt16(picture.columns)
        execution.answers = answers
        let outcome = try execution.run()
        #expect(outcome.status == 0, "\(line): \(outcome.screen)")
        picture.add("\u{1B}[32m$\u{1B}[0m \u{1B}[1m\(line)\u{1B}[0m\n\(outcome.screen)")
    }

    private func makeProgram(_ name: String, _ text: String) throws {
        let path = try sandbox.file(name, text)
        try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: path)
    }

    private static func undated(_ text: String) -> String {
        text.replacing(/\d{4}-\d\d-\d\d \d\d:\d\d/, with: "a date")
    }
}
