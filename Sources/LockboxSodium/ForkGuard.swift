import LockboxCore
import LockboxPlatform

/// Notices that this process is a forked child, in which the pages of secret keys are wiped (`MADV_WIPEONFORK`).
package enum ForkGuard {
    /// A page that holds ``generation``, and that the kernel gives to a child as zeros. Nil where it cannot.
    nonisolated(unsafe) private static let page: UnsafeMutablePointer<Int>? = {
        #if os(Linux)
            let size = sysconf(CInt(_SC_PAGESIZE))
            let page = mmap(nil, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
            guard let page, page != MAP_FAILED, wipeOnFork(page, size) else { return nil }
            page.storeBytes(of: 1, as: Int.self)
            return page.assumingMemoryBound(to: Int.self)
        #else
            return nil
        #endif
    }()
    private static let last = Protected(1)

    /// A number that is another one in a forked child than in its parent. Costs no system call.
    package static var generation: Int {
        guard let page else { return 0 }
        if page.pointee != 0 { return page.pointee }
        return last.withLock { last in
            if page.pointee == 0 {
                last += 1
                page.pointee = last
            }
            return last
        }
    }

    /// Has the kernel wipe whole pages in a forked child.
    @discardableResult
    static func wipeOnFork(_ start: UnsafeMutableRawPointer, _ count: Int) -> Bool {
        #if os(Linux)
            let size = UInt(sysconf(CInt(_SC_PAGESIZE)))
            let first = UInt(bitPattern: start) / size * size
            let end = (UInt(bitPattern: start) + UInt(count) + size - 1) / size * size
            // MADV_WIPEONFORK, which the Glibc module may not have.
            return madvise(UnsafeMutableRawPointer(bitPattern: first), Int(end - first), 18) == 0
        #else
            return false
        #endif
    }
}
