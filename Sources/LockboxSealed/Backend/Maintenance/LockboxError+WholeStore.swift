import LockboxCore
import LockboxPlatform

extension LockboxError {
    /// Whether it is no damage of one record: the storage does not answer, refuses, or is not the one from before.
    ///
    /// - Parameter location: The record's.
    func isOfWholeStore(notOf location: String) -> Bool {
        switch self {
        case .notReachable, .accessDenied, .storeReplaced: true
        case .rolledBack(let other, _): other != location
        default: false
        }
    }
}
