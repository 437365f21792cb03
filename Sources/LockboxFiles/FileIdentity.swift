import LockboxCore
package import LockboxPlatform

/// Identifies a file by its device and inode.
package struct FileIdentity: Equatable {
    package let device: Int64
    package let inode: Int64

    package init(_ status: stat) {
        device = Int64(truncatingIfNeeded: status.st_dev)
        inode = Int64(truncatingIfNeeded: status.st_ino)
    }

    package static let plainFile = "a regular file"
    package static let folder = "a folder"

    /// Returns nil if there is no entry of that name.
    package static func kind(of name: String, at directory: CInt, _ calls: SystemCalls) -> String? {
        var status = stat()
        return calls.stat(name, at: directory, &status) == 0 ? kind(status) : nil
    }

    package static func kind(_ status: stat) -> String {
        switch status.st_mode & S_IFMT {
        case S_IFREG: plainFile
        case S_IFDIR: folder
        case S_IFLNK: "a symbolic link"
        case S_IFIFO: "a FIFO"
        case S_IFSOCK: "a socket"
        case S_IFBLK, S_IFCHR: "a device"
        default: "something else"
        }
    }
}
