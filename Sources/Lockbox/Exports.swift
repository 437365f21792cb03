@_exported public import LockboxCore
@_exported public import LockboxMigration
@_exported public import LockboxSealed
