import Foundation

import Lockbox
@testable import LockboxCore

/// Counts the calls to another backend.
struct CountingBackend: WrappingBackend {
    private let counted: any LockboxBackend
    private let count = Protected(0)

    init(wrapped: any LockboxBackend = InMemoryBackend()) { counted = wrapped }

    var calls: Int { count.withLock { $0 } }

    /// Each call of the backend asks once for it.
    var wrapped: any LockboxBackend {
        _ = count.next()
        return counted
    }
}
