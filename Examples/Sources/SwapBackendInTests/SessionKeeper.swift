import Foundation
import Lockbox

struct Session: Codable, Equatable {
    var user: String
    var token: String
}

/// The part of an app that remembers who is signed in. It takes its lockbox from outside, so that a test can give it
/// another backend: see Tests/SwapBackendInTestsTests.
struct SessionKeeper {
    /// The app's action at its start.
    enum Start: Equatable {
        case signedIn(Session)
        /// No user was signed in: show the sign-in form.
        case signedOut
        /// Ask for the passcode and try again. The user stays signed in.
        case locked
        /// The session cannot be read any more. Say so, and show the sign-in form: a new session takes its place.
        case damaged
    }

    /// The app's action after a sign-in.
    enum SignIn: Equatable {
        case remembered
        /// The disk is full: signed in, but only until the app ends. Say so.
        case untilTheEnd
    }

    let lockbox: Lockbox

    func start() throws -> Start {
        do {
            return try lockbox.unarchiveObject(forKey: "session").map(Start.signedIn) ?? .signedOut
        } catch LockboxError.interactionNotAllowed {
            return .locked
        } catch LockboxError.corrupt, LockboxError.authenticationFailed {
            return .damaged
        }
    }

    func signIn(_ session: Session) throws -> SignIn {
        do {
            try lockbox.archiveObject(session, forKey: "session")
            return .remembered
        } catch LockboxError.storageFailure(_, _, errno: ENOSPC, _) {
            return .untilTheEnd
        }
    }
}
