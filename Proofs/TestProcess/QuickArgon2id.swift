import Clibsodium
import LockboxCore
import LockboxPlatform

/// Argon2id of the tests and of the processes that they start, instead of libsodium's function of that name.
///
/// Most of the tests' time would go into the passcodes of stores. So what the tests' process has asked before is not computed again;
/// and a short hash takes the place of libsodium's weakest cost for a passcode that begins with ``quick``, and for every passcode
/// if the environment has `LOCKBOX_QUICK_ARGON2ID`, which `Scripts/test` sets for the suites that are not about passcodes.
@_cdecl("crypto_pwhash") func quickArgon2id(
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
    let isQuick = question.starts(with: quick.utf8) || areAllQuick
    question += UnsafeRawBufferPointer(start: salt, count: Int(crypto_pwhash_argon2id_SALTBYTES))
    for number in [outputLength, operations, UInt64(memory), UInt64(algorithm)] {
        withUnsafeBytes(of: number) { question += $0 }
    }
    if isQuick && memory == crypto_pwhash_argon2id_MEMLIMIT_INTERACTIVE {
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
    if result == 0 && remembers {
        let answer = Array(UnsafeBufferPointer(start: output, count: length))
        answers.withLock { $0[digest] = answer }
    }
    return result
}

/// The beginning of a passcode that is hashed once.
let quick = "quick "

private let areAllQuick = getenv("LOCKBOX_QUICK_ARGON2ID") != nil

/// Only the tests' process, as some of the others look for secrets in their memory.
private let remembers = !CommandLine.arguments[0].hasSuffix("LockboxTestProcess")

private let answers = Protected<[[UInt8]: [UInt8]]>([:])
