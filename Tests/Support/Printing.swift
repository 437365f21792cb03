import Testing

// The tests of all targets have a link to this file.

/// The output of each way of printing a value.
func textsOfPrinting(_ subject: Any) -> [String] {
    var (dumped, printed, debugPrinted) = ("", "", "")
    dump(subject, to: &dumped)
    print(subject, to: &printed)
    debugPrint(subject, to: &debugPrinted)
    return [
        dumped, printed, debugPrinted, "\(subject)", String(describing: subject), String(reflecting: subject),
        "\([subject])", "\(Optional(subject) as Any)",
    ]
}

/// An error of an app, or of a library that it uses, which quotes a secret.
struct Quoting: Error { let text: String }

/// Expects that no way of printing these values shows a secret, as text or as bytes, or a closure, or what holds a key.
///
/// - Parameters:
///   - secrets: The texts that they hold.
///   - bytes: The bytes that they hold and are no text.
///   - samples: Values of each type, by its name.
func expectPrintingHides(_ secrets: [String], bytes: [[UInt8]] = [], in samples: [String: [Any]]) {
    func numbers(_ bytes: some Sequence<UInt8>) -> String { bytes.map(String.init).joined(separator: " ") }
    let forbidden = secrets + ["(Function)", "Keyring", "KeyStore", "SecretKey", "Quoting("]
    let runs = secrets.map { numbers($0.utf8) } + bytes.map(numbers)
    for (name, values) in samples {
        for text in values.flatMap({ textsOfPrinting($0) + textsOfPrinting((1, $0)) }) {
            for word in forbidden { #expect(!text.contains(word), "\(name)") }
            let digits = text.split { !$0.isNumber }.joined(separator: " ")
            for run in runs { #expect(!digits.contains(run), "\(name)") }
        }
    }
    for secret in secrets {
        #expect(textsOfPrinting(Quoting(text: secret)).allSatisfy { $0.contains(secret) }, "the control")
    }
}
