import Foundation
import Testing

import Lockbox
@testable import LockboxCore
@testable import LockboxFiles
@testable import LockboxMigration
@testable import LockboxSealed
@testable import LockboxSodium

/// Whether this kernel, and this sandbox, have a keyring for the user.
let hasKernelKeyring: Bool = {
    let kernel = KernelKeyring()
    let name = "lockbox-tests:\(UInt64.random(in: .min ... .max))"
    guard kernel.add(name, Array("probe".utf8), seconds: 60) else { return false }
    defer { _ = try? kernel.remove(name) }
    return kernel.serial(of: name).flatMap { kernel.read($0, maximum: 64) { $0.count } } == 5
}()

/// Whether the tests run without a sanitizer.
let isUnsanitized = ProcessInfo.processInfo.environment["LOCKBOX_SANITIZER"] == nil
