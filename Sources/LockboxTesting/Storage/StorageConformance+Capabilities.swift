import LockboxCore
import LockboxSealed

/// Requirements for storages with other optional capabilities.
extension StorageConformance {
    static let cleanFindings = StorageConformance(
        "there are no findings in a storage that only commits have changed"
    ) {
        subject in
        func check(after call: String) throws {
            guard let storage = subject.storage as? any InspectableStorage else { return }
            guard let findings = try subject.ifSupported({ try storage.findings() }) else { return }
            try subject.expect(findings.isEmpty, "after \(call), findings() returned \(findings)")
        }
        try check(after: "nothing")
        // Lockbox has no records of other names outside the namespaces.
        for record in [subject.record("record"), subject.record("keybag", in: nil)] {
            try subject.put(record, subject.bytes())
        }
        try check(after: "commits")
        try subject.commit([.remove(subject.record("record"))])
        try check(after: "a removal")
    }

    static let quarantine = StorageConformance("a record that is set aside is absent") { subject in
        guard let storage = subject.storage as? any QuarantiningStorage else { return }
        let (record, kept) = (subject.record("record"), subject.record("kept"))
        let bytes = subject.bytes()
        try subject.put(kept, bytes)
        for isLocked in [false, true] {
            func quarantine() throws -> String? {
                let locking = isLocked ? storage as? any LockingStorage : nil
                let lock = try locking.flatMap { locking in
                    try subject.ifSupported { try locking.lock("namespace") }
                }
                defer { lock?.release() }
                return try subject.ifSupported { try storage.quarantine(record, lock: lock) }
            }
            let call = isLocked ? "quarantine(_:lock:) under a lock" : "quarantine(_:lock:)"
            try subject.put(record, subject.bytes())
            guard let location = try quarantine() else { return }
            try subject.expect(!location.isEmpty, "\(call) did not say where the bytes are now")
            try subject.expect(record, is: nil, after: call)
            try subject.expectNames(["kept"], after: call)
            try subject.expect(kept, is: bytes, after: "\(call) of another record")
            try subject.expectError(.missing, from: "\(call) of an absent record") { _ = try quarantine() }
        }
        try subject.expectError(.missing, from: "quarantine(_:) of an absent record") {
            _ = try storage.quarantine(record)
        }
    }
}
