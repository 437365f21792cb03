@_exported import LockboxCore
@_exported import LockboxMigration
@_exported import LockboxSealed
