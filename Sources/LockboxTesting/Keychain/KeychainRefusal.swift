import LockboxKeychain

/// A call that the Keychain refuses, with its result code.
struct KeychainRefusal: Error {
    let status: Int32

    init(_ status: Int32) { self.status = status }

    static let parameter = KeychainRefusal(KeychainStatus.parameter)
}
