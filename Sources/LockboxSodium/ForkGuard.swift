import CLinux
import LockboxCore

/// Notices that this process is a forked child, in which the kernel has wiped the secret keys (`MADV_WIPEONFORK`).
package enum ForkGuard {
    /// Holds ``generation``, an aligned word that is written once in a process, under the lock. Nil where the kernel wipes
    /// nothing.
    nonisolated(unsafe) private static let page = page_wiped_on_fork()
    private static let last = Protected(0)

    /// A number that is another one in a forked child than in its parent. Costs no system call.
    package static var generation: Int {
        guard let page else { return 0 }
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
