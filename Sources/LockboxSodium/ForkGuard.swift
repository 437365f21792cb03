import CLinux
import LockboxCore
import LockboxPlatform

/// Notices that this process is a forked child. Where it can, the kernel has wiped the secret keys in it (`MADV_WIPEONFORK`).
package enum ForkGuard {
    /// Holds ``generation``, an aligned word that is written once in a process, under the lock. Nil where the kernel wipes
    /// nothing.
    // Unsafe only because pointers are not Sendable: this one never changes.
    nonisolated(unsafe) private static let page = page_wiped_on_fork()
    private static let last = Protected(0)

    /// A number that is another one in a forked child than in its parent, and never 0. Costs no system call where the kernel
    /// wipes pages.
    package static var generation: Int { generation(on: page) }

    static func generation(on page: UnsafeMutablePointer<Int>?) -> Int {
        guard let page else { return Int(getpid()) }
        if page.pointee != 0 { return page.pointee }
        return last.withLock { last in
            if page.pointee == 0 {
                last += 1
                page.pointee = last
            }
            return page.pointee
        }
    }
}
