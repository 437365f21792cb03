import Lockbox

/// A recovery code or a key that opens no slot, or that is none.
struct WrongSecret: Error {
    let reason: String
}
