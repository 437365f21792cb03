// A service that takes its passcode from a systemd credential; lockbox-example.service is its unit.
//
// systemd tells it by CREDENTIALS_DIRECTORY where the passcode is and by STATE_DIRECTORY where the store is. The first
// start gives the store its passcode. SIGTERM and SIGINT end it.
//
// The exit statuses are those of sysexits.h: 77, the passcode is wrong; 78, there is none; 74, the store or the
// credential cannot be read or written; 70, anything else.

import Foundation
import Lockbox

/// Not `print`, which holds text back if it goes to a pipe or the journal.
func log(_ text: String) { FileHandle.standardError.write(Data("lockbox-example: \(text)\n".utf8)) }

func exitStatus(_ error: any Error) -> Int32 {
    switch error {
    case LockboxError.wrongPasscode: 77
    case LockboxError.invalidPasscode: 78
    case LockboxError.storageFailure, LockboxError.missing, LockboxError.corrupt,
        LockboxError.authenticationFailed:
        74
    default: 70
    }
}

func unlock(_ backend: EncryptedFileBackend) throws {
    do { try backend.setPasscode(.credential()) } catch LockboxError.passcodeAlreadySet {
        try backend.unlock(.credential())
    }
}

/// The service's work: here it counts its starts.
func work(_ lockbox: Lockbox) throws {
    let starts = try lockbox.unarchiveObject(Int.self, forKey: "starts") ?? 0
    try lockbox.archiveObject(starts + 1, forKey: "starts")
    log("ready, start \(starts + 1)")
}

// Before any thread is made, so that every thread leaves these signals to sigwait.
var signals = sigset_t()
sigemptyset(&signals)
sigaddset(&signals, SIGTERM)
sigaddset(&signals, SIGINT)
pthread_sigmask(SIG_BLOCK, &signals, nil)

do {
    let backend = EncryptedFileBackend.default
    try unlock(backend)
    try work(Lockbox(keyPrefix: "com.example.service", backend: backend))

    var signal: Int32 = 0
    sigwait(&signals, &signal)
    try backend.lock()
    log("stopped by signal \(signal), the store is \(try backend.lockState)")
} catch {
    log("\(error)")
    exit(exitStatus(error))
}
