// So that an app that stores its items in the Keychain only needs no other product, and no library.
@_exported public import LockboxCore
