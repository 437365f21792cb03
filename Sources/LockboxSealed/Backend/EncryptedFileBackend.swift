import LockboxCore

/// The default backend: stores each item in a file of its own, encrypted with libsodium.
///
/// ```swift
/// let backend = EncryptedFileBackend(directory: "/var/lib/example/secrets")
/// let lockbox = try Lockbox(keyPrefix: "com.example.app", backend: backend)
/// ```
public typealias EncryptedFileBackend = SealedBackend<FileStorage>

extension SealedBackend where Storage == FileStorage {
    /// Creates a backend for the store in a folder. Reads and writes nothing.
    ///
    /// The first write creates the folder (mode 0700) and the store's keys if they do not exist.
    ///
    /// - Parameters:
    ///   - directory: An absolute path, one that begins with `~/`, or a path relative to the current directory. See
    ///     `FileStorage`.
    ///   - deviceKey: The source of the device key. It must always be the same for one store. By default, the
    ///     key is stored in the folder.
    ///   - requirements: What the program requires of the store.
    ///   - counter: A monotonic counter, such as one in a TPM, that detects a store restored from an older copy. Every
    ///     program that uses the store must pass it, because the changes of a program without it are not counted.
    public convenience init(
        directory: String,
        deviceKey: DeviceKeySource = .stored,
        requires requirements: StoreRequirements = .none,
        counter: (any GenerationCounter)? = nil
    ) {
        self.init(
            storage: FileStorage(directory: directory),
            deviceKey: deviceKey,
            requires: requirements,
            kernel: KernelKeyring(),
            counter: counter
        )
    }

    /// The user's store, shared by all programs like a login keychain.
    ///
    /// Its folder is `LOCKBOX_DIRECTORY`; otherwise `lockbox` in the first folder of `STATE_DIRECTORY`, which
    /// systemd sets for services; otherwise `lockbox` in `XDG_DATA_HOME`; otherwise `~/.local/share/lockbox`.
    /// On Apple's systems, `~/Library/Application Support/lockbox` replaces the last two. The environment is
    /// read once.
    public static var `default`: EncryptedFileBackend { defaultBackend }
}

private let defaultBackend = EncryptedFileBackend(storage: FileStorage(StoreLocation.standard()))
