import LockboxSealed

extension RecordStorage {
    /// Runs `body` while nobody else can commit to the namespace.
    func holdingTurn<Result>(in namespace: String?, _ body: () throws -> Result) throws -> Result {
        let turn = try takeTurn(in: namespace)
        defer { turn?.release() }
        return try body()
    }
}
