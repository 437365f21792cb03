import Foundation
import Testing

import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// Codes that people write down and type.
@Suite struct RecoveryCodeTests {
    @Test func aCodeIsReadAsItIsWritten() throws {
        for _ in 0..<100 {
            let code = RecoveryCode()
            let text = code.text
            #expect(text.wholeMatch(of: /([0-9A-HJKMNP-TV-Z]{4}-){6}[0-9A-HJKMNP-TV-Z]{4}/) != nil)
            #expect(try RecoveryCode(text).text == code.text)
            let typed = text.lowercased().replacing("-", with: " ").replacing("0", with: "o").replacing(
                "1",
                with: "l"
            )
            #expect(try RecoveryCode(" \(typed)\n").text == code.text)
            #expect(try RecoveryCode(text.replacing("1", with: "i")).text == code.text)
        }
        #expect(Set((0..<1000).map { _ in RecoveryCode().text }).count == 1000)
    }

    private static let alphabet = Array("0123456789ABCDEFGHJKMNPQRSTVWXYZ")

    @Test func everyMistypedCharacterIsFound() throws {
        var characters = Array(RecoveryCode().text)
        for index in characters.indices where characters[index] != "-" {
            let right = characters[index]
            for wrong in Self.alphabet where wrong != right {
                characters[index] = wrong
                expectError(.invalidPasscode, "\(index): \(wrong)") { try RecoveryCode(String(characters)) }
            }
            characters[index] = right
        }
        #expect(throws: Never.self) { try RecoveryCode(String(characters)) }
    }

    /// Also two of them, such as two neighbors in the wrong order.
    @Test func everyTwoMistypedCharactersAreFound() throws {
        let text = Array(RecoveryCode().text.replacing("-", with: ""))
        for first in text.indices {
            for second in text.indices where second > first {
                for _ in 0..<8 {
                    var typed = text
                    typed[first] = try #require(Self.alphabet.filter { $0 != text[first] }.randomElement())
                    typed[second] = try #require(Self.alphabet.filter { $0 != text[second] }.randomElement())
                    expectError(.invalidPasscode) { try RecoveryCode(String(typed)) }
                }
            }
        }
        for index in text.indices.dropLast() where text[index] != text[index + 1] {
            var typed = text
            typed.swapAt(index, index + 1)
            expectError(.invalidPasscode) { try RecoveryCode(String(typed)) }
        }
    }

    @Test func whatIsNoCodeIsRefused() {
        let text = RecoveryCode().text
        for typed in [
            "", " ", "U" + text.dropFirst(), text + "0", String(text.dropLast()), "é" + text, text + text,
        ] {
            expectError(.invalidPasscode, "\(typed.count) characters") { try RecoveryCode(typed) }
        }
    }
}
