/// A value was encoded to something that its own type does not decode.
struct Undecodable: Error {
    let underlying: any Error
}
