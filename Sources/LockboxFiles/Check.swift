package import LockboxCore
import LockboxPlatform

/// Returns a system call's result, or throws its error.
@discardableResult
package func check(_ result: Int, _ operation: String, _ path: @autoclosure () -> String) throws(LockboxError)
    -> Int
{
    if result >= 0 { return result }
    throw LockboxError.storageFailure(operation: operation, path: path(), errno: CInt(-result))
}
