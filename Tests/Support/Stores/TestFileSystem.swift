import Foundation
import Testing

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// A file system of its own for one test: in an image file on a loop device, or on FUSE. Unmounted when the test is done.
final class TestFileSystem: Sendable {
    enum Kind: String, CaseIterable {
        case btrfs, xfs
        /// Inodes of 128 bytes, whose times are whole seconds.
        case ext4OfWholeSeconds
        /// Another folder, through FUSE. It hides a file's name while the file is replaced.
        case bindfs

        fileprivate var command: [String] {
            switch self {
            case .btrfs: ["mkfs.btrfs", "-q", "-f"]
            case .xfs: ["mkfs.xfs", "-q", "-f"]
            case .ext4OfWholeSeconds: ["mkfs.ext4", "-q", "-F", "-I", "128"]
            case .bindfs: ["bindfs"]
            }
        }

        fileprivate var mebibytes: off_t { self == .xfs ? 300 : 128 }

        var isPresent: Bool {
            let paths = ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/bin", "/usr/bin", "/bin"]
            let device = self == .bindfs ? "/dev/fuse" : "/dev/loop-control"
            return geteuid() == 0 && access(device, R_OK | W_OK) == 0
                && paths.contains { access("\($0)/\(command[0])", X_OK) == 0 }
        }

        var absence: Comment { "\(rawValue) needs root, a device and \(command[0])" }
    }

    /// The mounted ones. Those still referenced then are unmounted when the process ends.
    private static let mounted: Protected<Set<String>> = {
        atexit { TestFileSystem.unmountAll() }
        return Protected([])
    }()

    private static func unmountAll() {
        for base in mounted.withLock({ $0 }) { unmount(base) }
    }

    private static func unmount(_ base: String) {
        try? run(["umount", "-l", "\(base)/mounted"])
        try? FileManager.default.removeItem(atPath: base)
        mounted.withLock { _ = $0.remove(base) }
    }

    /// Where it is mounted.
    let folder: String
    private let base: String

    init(_ kind: Kind) throws {
        base = NSTemporaryDirectory() + "lockbox-file-system-\(UInt64.random(in: .min ... .max))"
        folder = "\(base)/mounted"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        Self.mounted.withLock { [base] in _ = $0.insert(base) }
        if kind == .bindfs {
            try FileManager.default.createDirectory(
                atPath: "\(base)/below",
                withIntermediateDirectories: true
            )
            try Self.run(["bindfs", "\(base)/below", folder])
        } else {
            let image = "\(base)/image"
            try overwrite(image, [])
            try #require(truncate(image, kind.mebibytes << 20) == 0)
            try Self.run(kind.command + [image])
            try Self.run(["mount", "-o", "loop", image, folder])
        }
    }

    deinit { Self.unmount(base) }

    /// Not Foundation's `Process`, which would wait for the daemon that bindfs leaves behind.
    private static func run(_ command: [String]) throws {
        var arguments: [UnsafeMutablePointer<CChar>?] = (["env"] + command).map { strdup($0) } + [nil]
        defer { arguments.forEach { free($0) } }
        var environment: [UnsafeMutablePointer<CChar>?] = [
            strdup("PATH=/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"), nil,
        ]
        defer { environment.forEach { free($0) } }
        var process: pid_t = 0
        var status: CInt = -1
        // Another test may take the same loop device at the same moment.
        for _ in 0..<5 {
            let result = posix_spawn(
                &process,
                "/usr/bin/env",
                nil,
                nil,
                &arguments,
                &environment
            )
            try #require(result == 0)
            while waitpid(process, &status, 0) < 0, errno == EINTR {}
            if status == 0 || command[0] != "mount" { break }
            usleep(100_000)
        }
        try #require(status == 0, "\(command[0])")
    }
}
