import LockboxPlatform

/// Runs `body` on a thread of its own, which may block.
///
/// - Throws: ``LockboxError/storageFailure(operation:path:errno:)`` if the process cannot create another
///   thread.
package func detachThread(_ body: @escaping @Sendable () -> Void) throws(LockboxError) {
    final class Body: Sendable {
        let run: @Sendable () -> Void
        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
    }
    var thread = noThread()
    var attributes = pthread_attr_t()
    pthread_attr_init(&attributes)
    pthread_attr_setdetachstate(&attributes, CInt(PTHREAD_CREATE_DETACHED))
    let body = Unmanaged.passRetained(Body(body))
    let result = pthread_create(
        &thread,
        &attributes,
        { argument in
            let body: UnsafeMutableRawPointer? = argument  // optional on some systems only
            Unmanaged<Body>.fromOpaque(body!).takeRetainedValue().run()
            return nil
        },
        body.toOpaque()
    )
    pthread_attr_destroy(&attributes)
    guard result == 0 else {
        body.release()
        throw LockboxError.storageFailure(operation: "pthread_create", path: "a thread", errno: result)
    }
}
