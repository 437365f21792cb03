import CLinux

/// What the kernel says of the file system that a file is on.
enum FileSystem {
    @Sendable static func isFUSE(_ descriptor: CInt) -> Bool { file_is_on_fuse(descriptor) != 0 }
}
