import Clibsodium
import LockboxCore

/// Argon2id of the tests' process, instead of libsodium's function of that name: what was asked before is not computed again.
/// Otherwise most of the tests' time goes into the passcodes of stores that were copied.
@_cdecl("crypto_pwhash") func rememberedArgon2id(
    _ output: UnsafeMutablePointer<UInt8>,
    _ outputLength: UInt64,
    _ passcode: UnsafePointer<CChar>,
    _ passcodeLength: UInt64,
    _ salt: UnsafePointer<UInt8>,
    _ operations: UInt64,
    _ memory: Int,
    _ algorithm: Int32
) -> Int32 {
    let length = Int(outputLength)
    var question = Array(UnsafeRawBufferPointer(start: passcode, count: Int(passcodeLength)))
    question += UnsafeRawBufferPointer(start: salt, count: Int(crypto_pwhash_argon2id_SALTBYTES))
    for number in [outputLength, operations, UInt64(memory)] {
        withUnsafeBytes(of: number) { question += $0 }
    }
    if question.starts(with: quick.utf8) {
        crypto_generichash(output, length, question, UInt64(question.count), nil, 0)
        return 0
    }
    // Not the passcode itself, which a test may search for.
    var digest = [UInt8](repeating: 0, count: 32)
    crypto_generichash(&digest, digest.count, question, UInt64(question.count), nil, 0)
    if let known = answers.withLock({ $0[digest] }) {
        output.update(from: known, count: length)
        return 0
    }
    let result = crypto_pwhash_argon2id(
        output,
        outputLength,
        passcode,
        passcodeLength,
        salt,
        operations,
        memory,
        algorithm
    )
    if result == 0 {
        let answer = Array(UnsafeBufferPointer(start: output, count: length))
        answers.withLock { $0[digest] = answer }
    }
    return result
}

/// What a passcode begins with that is hashed once. For tests that set one at every call of another process: they are about the
/// keybag, not the passcode's strength. Processes that they start do not know it.
let quick = "quick "

private let answers = Protected<[[UInt8]: [UInt8]]>([:])
