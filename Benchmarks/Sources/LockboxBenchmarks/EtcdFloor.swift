#if Etcd
    import CEtcd
    import Foundation

    /// The C program on libcurl, with one connection. One thread uses it.
    final class EtcdFloor {
        struct Failed: Error {}

        private let handle: OpaquePointer
        private let root: String
        private let buffer = [UInt8](repeating: 7, count: 4096)
        private let room = UnsafeMutablePointer<UInt8>.allocate(capacity: 4096)

        init(_ endpoint: String, _ root: String) {
            handle = etcd_open(endpoint)
            self.root = root
        }

        deinit {
            etcd_close(handle)
            room.deallocate()
        }

        // Paths have the length of Lockbox's.
        private func path(_ key: String) -> String {
            let name = key + String(repeating: "-", count: 52 - key.utf8.count)
            return "\(root)/c/i/\(String(repeating: "s", count: 61))/\(name)"
        }
        private var keybag: String { "\(root)/c/k/keybag" }

        func fill(recordLength: Int) {
            put(keybag, 0, recordLength)
            for key in Keys(Cluster.count).all { put(path(key), 0, recordLength) }
        }

        private func put(_ path: String, _ revision: UInt64, _ length: Int) {
            precondition(etcd_replace(handle, path, revision, path, revision, buffer, length) == 0)
        }

        func read(_ key: String, _ revision: UnsafeMutablePointer<UInt64>? = nil) throws -> Int {
            let length = etcd_read(handle, path(key), room, 4096, revision)
            if length < 0 { throw Failed() }
            return length
        }

        func readBeside(_ key: String) throws {
            if etcd_read_beside(handle, path(key), keybag, room, 4096, nil) < 0 { throw Failed() }
        }

        /// The keybag's revision never changes, so it is asked for once.
        private lazy var keybagRevision: UInt64 = {
            var revision: UInt64 = 0
            precondition(etcd_read(handle, keybag, room, 4096, &revision) >= 0)
            return revision
        }()

        func replace(_ key: String) throws {
            var revision: UInt64 = 0
            let length = try read(key, &revision)
            let path = path(key)
            if etcd_replace(handle, path, revision, keybag, keybagRevision, room, length) != 0 {
                throw Failed()
            }
        }

        private let mark = UUID().uuidString
        private var markRevision: UInt64 = 0

        /// With a mark of this connection's own, as Lockbox has.
        func replaceOnce(_ key: String) throws {
            var revision: UInt64 = 0
            let length = try read(key, &revision)
            let mark = "\(root)/c/f/\(mark)"
            let result = etcd_replace_once(
                handle,
                path(key),
                revision,
                keybag,
                keybagRevision,
                room,
                length,
                mark,
                &markRevision
            )
            if result != 0 { throw Failed() }
        }

        func list(_ prefix: String) throws -> Int {
            let bytes = etcd_list(handle, prefix)
            if bytes < 0 { throw Failed() }
            return bytes
        }

        func answered() throws -> Int {
            let count = etcd_answered(handle)
            if count < 0 { throw Failed() }
            return count
        }
    }
#endif
