import Foundation

/// Whether the tests run without a sanitizer.
let isUnsanitized = ProcessInfo.processInfo.environment["LOCKBOX_SANITIZER"] == nil
