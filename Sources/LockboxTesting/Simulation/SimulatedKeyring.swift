import LockboxPlatform

/// The keyring of one user in the kernel.
final class SimulatedKeyring {
    /// The error codes of keyrings(7).
    private enum Failure {
        static let (noKey, expired, revoked) = (-126, -127, -128)
    }

    struct Key {
        let name: String
        let owner: Int
        var bytes: [UInt8]
        var end: Duration?
        var isPublished = false
        var isRevoked = false
    }

    private var keys: [Int32: Key] = [:]
    private var last: Int32 = 0

    func removeAll() { keys = [:] }

    func endProcess(_ number: Int) { keys = keys.filter { $0.value.owner != number || $0.value.isPublished } }

    func add(_ name: String, length: Int, owner: Int) -> Int {
        last += 1
        keys[last] = Key(name: name, owner: owner, bytes: [UInt8](repeating: 0, count: length))
        return Int(last)
    }

    func find(_ name: String, at time: Duration) -> Int {
        guard let found = keys.first(where: { $0.value.name == name && $0.value.isPublished }) else {
            return Failure.noKey
        }
        if found.value.isRevoked { return Failure.revoked }
        if found.value.end.map({ $0 <= time }) ?? false { return Failure.expired }
        return Int(found.key)
    }

    func change(_ key: Int32, at time: Duration, _ body: (inout Key) -> Int) -> Int {
        guard var found = keys[key] else { return Failure.noKey }
        if found.isRevoked { return Failure.revoked }
        if found.end.map({ $0 <= time }) ?? false { return Failure.expired }
        let result = body(&found)
        keys[key] = found
        return result
    }

    func publish(_ key: Int32, at time: Duration) -> Int {
        guard let name = keys[key]?.name else { return Failure.noKey }
        keys = keys.filter { $0.key == key || $0.value.name != name || !$0.value.isPublished }
        return change(key, at: time) {
            $0.isPublished = true; return 0
        }
    }

    func withdraw(_ key: Int32) -> Int {
        if let found = keys[key], !found.isPublished { keys[key] = nil }
        return 0
    }

    func unlink(_ key: Int32) -> Int {
        keys[key] = nil
        return 0
    }
}

extension SimulatedProcess {
    // MARK: Watches: there are none

    package func openWatch() -> Int { -Int(ENOSYS) }
    package func openStop() -> Int { -Int(ENOSYS) }
    package func stop(_ stop: CInt) {}
    package func addWatch(_ watch: CInt, _ path: String) -> Int { -Int(ENOSYS) }
    package func readWatch(_ watch: CInt, _ stop: CInt, into buffer: UnsafeMutableRawBufferPointer) -> Int {
        -Int(ENOSYS)
    }

    // MARK: The kernel's keyring

    package func addKey(_ name: String, length: Int) -> Int {
        call("add_key", failing: [EDQUOT]) { machine.keys.add(name, length: length, owner: number) }
    }

    package func findKey(_ name: String) -> Int {
        call("search") { machine.keys.find(name, at: machine.uptime) }
    }

    package func readKey(_ key: Int32, into buffer: UnsafeMutableRawBufferPointer) -> Int {
        call("read key") {
            machine.keys.change(key, at: machine.uptime) {
                if $0.bytes.count <= buffer.count { buffer.copyBytes(from: $0.bytes) }
                return $0.bytes.count
            }
        }
    }

    package func updateKey(_ key: Int32, _ bytes: UnsafeRawBufferPointer) -> Int {
        call("update key", failing: [EDQUOT]) {
            machine.keys.change(key, at: machine.uptime) {
                $0.bytes = Array(bytes)
                return 0
            }
        }
    }

    package func setKeyPermissions(_ key: Int32, _ permissions: UInt32) -> Int { call("setperm") { 0 } }

    package func setKeyTimeout(_ key: Int32, seconds: UInt32) -> Int {
        call("set timeout") {
            let end = machine.uptime + .seconds(Int(seconds))
            return machine.keys.change(key, at: machine.uptime) {
                $0.end = end
                return 0
            }
        }
    }

    package func publishKey(_ key: Int32) -> Int {
        call("link key") { machine.keys.publish(key, at: machine.uptime) }
    }
    package func withdrawKey(_ key: Int32) -> Int { call("withdraw key") { machine.keys.withdraw(key) } }

    package func revokeKey(_ key: Int32) -> Int {
        call("revoke key") {
            machine.keys.change(key, at: machine.uptime) {
                $0.isRevoked = true
                return 0
            }
        }
    }

    package func unlinkKey(_ key: Int32) -> Int { call("unlink key") { machine.keys.unlink(key) } }

    package func lockKeys() -> Int {
        call("lock keys") {
            let open = OpenFile(machine.keysFile)
            guard Self.lock(open, LOCK_EX | LOCK_NB) == 0 else {
                open.release()
                return -Int(EWOULDBLOCK)
            }
            return descriptor(of: open)
        }
    }
}
