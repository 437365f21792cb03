import LockboxCore

/// The default backend: every item sealed with libsodium, in a flat file of its own.
///
/// ```swift
/// let backend = EncryptedFileBackend(directory: "/var/lib/example/secrets")
/// let lockbox = try Lockbox(keyPrefix: "com.example.app", backend: backend)
/// ```
public typealias EncryptedFileBackend = SealedBackend<FileStorage>

extension SealedBackend where Storage == FileStorage {
    /// The store in a folder. Nothing is read or written yet; the first write makes the folder (0700) and its
    /// keys, if there is none.
    ///
    /// - Parameters:
    ///   - directory: An absolute path, or one from the current directory.
    ///   - deviceKey: Where the device key comes from; always the same for one store. By default it is in the folder.
    public convenience init(directory: String, deviceKey: DeviceKeySource = .stored) {
        self.init(storage: FileStorage(directory: directory), deviceKey: deviceKey)
    }

    /// This user's store, one for all programs, as a login keychain is.
    ///
    /// It is the folder `LOCKBOX_DIRECTORY`; else `lockbox` in the first folder of `STATE_DIRECTORY`, which
    /// systemd sets for a service; else `lockbox` in `XDG_DATA_HOME`; else `~/.local/share/lockbox`. On Apple's
    /// systems the last two are `~/Library/Application Support/lockbox`. The environment is read once.
    public static var `default`: EncryptedFileBackend { defaultBackend }
}

private let defaultBackend = EncryptedFileBackend(directory: StoreLocation.standard())
