import Testing

@testable import LockboxTestProcess

/// What takes the place of libsodium's Argon2id in the tests.
@Suite struct QuickArgon2idTests {
    /// What is known of one algorithm is no answer for another.
    @Test func anAnswerIsOfItsAlgorithm() {
        let salt = [UInt8](repeating: 1, count: 16)
        func derive(_ algorithm: Int32) -> (status: Int32, key: [UInt8]) {
            var key = [UInt8](repeating: 0, count: 32)
            let status = quickArgon2id(&key, 32, "passcode", 8, salt, 1, 8192, algorithm)
            return (status, key)
        }
        let (argon2id, argon2i): (Int32, Int32) = (2, 1)
        let first = derive(argon2id)
        #expect(first.status == 0 && first.key != [UInt8](repeating: 0, count: 32))
        #expect(derive(argon2id).key == first.key)
        #expect(derive(argon2i).status != 0, "libsodium's function of Argon2id refuses another")
    }
}
