import Foundation
import Testing

@testable import Lockbox
@testable import LockboxBackup
@_spi(Extensions) @testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// Backups from a pipe, which can be read once.
@Suite(.serialized, .timeLimit(.minutes(10))) struct BackupPipeTests: BackupFixture {
    let source: TestStore
    let target: TestStore

    init() throws {
        source = try TestStore()
        target = try TestStore()
    }

    /// It is copied as it comes, and read twice from there.
    @Test func aPipeIsABackupToo() throws {
        let items = try migratable()
        try export(prepare())
        let bytes = try readBytes(path)
        let pipe = "\(Path.parent(of: source.directory))/pipe"
        try #require(mkfifo(pipe, 0o600) == 0)
        try detachThread {
            try? FileHandle(forWritingTo: URL(fileURLWithPath: pipe)).write(contentsOf: Data(bytes))
        }
        let report = try target.backend().importBackup(from: pipe, with: .passphrase(.value("passphrase")))
        #expect(report.importedCount == items.count)
    }

    /// It may never end, and fill the disk.
    @Test(arguments: ["bad", "another key", "changed", "plain"]) func aPipeIsReadOnlyAsFarAsItIsABackup(
        _ what: String
    )
        throws
    {
        try export(prepare())
        var bytes = try readBytes(path)
        switch what {
        case "bad": bytes = Array("age-encryption.org/v1\nbad\n".utf8)
        case "another key":
            try overwrite(path, [])
            try source.backend().exportBackup(to: path, for: .publicKeys([BackupKey().publicKey]))
            bytes = try readBytes(path)
        case "changed": bytes[bytes.count / 2] ^= 1
        default: bytes = Array("notes".utf8)
        }
        let (pipe, limit) = ("\(Path.parent(of: source.directory))/pipe", 64 << 20)
        try #require(mkfifo(pipe, 0o600) == 0)
        let (written, ended) = (Protected(0), DispatchSemaphore(value: 0))
        try detachThread { [bytes] in
            defer { ended.signal() }
            signal(SIGPIPE, SIG_IGN)
            let file = open(pipe, O_WRONLY)
            defer { close(file) }
            let rest = [UInt8](repeating: 0, count: 1 << 16)
            var count = write(file, bytes, bytes.count)
            while count > 0, written.withLock({ $0 }) < limit {
                written.withLock { $0 += count }
                count = write(file, rest, rest.count)
            }
        }
        let error = lockboxError {
            try target.backend().importBackup(from: pipe, with: .passphrase(.value("passphrase")))
        }
        ended.wait()
        #expect(error != nil && written.withLock { $0 } < 4 << 20, "\(String(describing: error))")
    }
}
