// An identifier of this installation that outlives the app's own data.
//
//     swift run DeviceIdentifier       prints it, and makes it the first time
//
// Deleting the app's data, here the folder com.example.device-identifier beside the store, does not change it. Deleting
// the store does.

import Foundation
import Lockbox

/// However many processes ask at once, all of them get the same one. A store that cannot be read throws: that never
/// makes a second identifier.
func deviceIdentifier(_ lockbox: Lockbox) throws -> UUID {
    if let known = try lockbox.unarchiveObject(UUID.self, forKey: "device-identifier") { return known }
    let new = UUID()
    do {
        // The class keeps it out of backups, so that no other machine gets it.
        try lockbox.archiveObject(
            new,
            forKey: "device-identifier",
            options: WriteOptions(accessibility: .afterFirstUnlockThisDeviceOnly, policy: .addOnly)
        )
        return new
    } catch LockboxError.duplicateItem {
        return try deviceIdentifier(lockbox)  // another process was first
    }
}

do {
    print(try deviceIdentifier(Lockbox(keyPrefix: "com.example.device-identifier")))
    let files = FileManager.default
    let data = try files.url(
        for: .applicationSupportDirectory,
        in: .userDomainMask,
        appropriateFor: nil,
        create: true
    )
    .appending(path: "com.example.device-identifier")
    let isKnown = files.fileExists(atPath: data.path)
    try files.createDirectory(at: data, withIntermediateDirectories: true)
    print(isKnown ? "The app's data is there." : "The app has no data yet.")
} catch {
    FileHandle.standardError.write(Data("DeviceIdentifier: \(error)\n".utf8))
    exit(1)
}
