@_spi(Extensions) @testable import LockboxStore

extension RecordStorage {
    /// Runs `body` while nobody else can commit to the namespace.
    func holdingLock<Result>(of namespace: String?, _ body: () throws -> Result) throws -> Result {
        let lock = try lockIfSupported([namespace])
        defer { lock?.release() }
        return try body()
    }
}
