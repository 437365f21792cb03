import Foundation

extension SealedBackend {
    /// Looks at everything in the store, and changes nothing.
    ///
    /// The values of classes that are locked are not opened; their number is in the report.
    ///
    /// - Parameter progress: Is called after each record.
    /// - Returns: How many items are whole, and whatever is not as it should be.
    /// - Throws: ``LockboxError`` if the storage cannot be read at all. What is wrong with its contents is in the report.
    public func verify(progress: (StoreProgress) -> Void = { _ in }) throws -> VerifyReport {
        var report = VerifyReport()
        report.findings = try storage.strays()
        let keyring: Keyring?
        do { keyring = try keys.checkedKeyring() } catch let error as LockboxError {
            report.add(error, try keybagLocation(error))
            return report
        }
        guard let keyring else { return report }
        let records = try records(keyring, &report)
        for (number, record) in records.enumerated() {
            do { try verify(record, keyring, &report) } catch let error as LockboxError {
                let location = storage.location(of: record)
                if try isOfAnotherStore(record, keyring) {
                    report.add(.foreign, location, "it is damaged, or another store's")
                } else {
                    report.add(error, location)
                }
            }
            progress(StoreProgress(completed: number + 1, total: records.count))
        }
        return report
    }

    /// Every record of the store, whatever it is.
    private func records(_ keyring: Keyring, _ report: inout VerifyReport) throws -> [RecordName] {
        var records: [RecordName] = []
        for scope in try storage.scopes() {
            guard keyring.isScopeName(scope) else {
                report.add(.foreign, scope, "it is no folder of this store")
                continue
            }
            do {
                records += try storage.names(scope: scope).map { RecordName(scope: scope, name: $0) }
            } catch let error as LockboxError {
                report.add(error, scope)
            }
        }
        return records
    }

    private func verify(_ record: RecordName, _ keyring: Keyring, _ report: inout VerifyReport) throws {
        if let id = RecordID(name: record.name) {
            try verify(ItemRecord(record: record, id: id), keyring, &report)
        } else {
            report.add(.foreign, storage.location(of: record), "it is no item")
        }
    }

    private func verify(_ place: ItemRecord, _ keyring: Keyring, _ report: inout VerifyReport) throws {
        guard try metadata(place, keyring) != nil else { return }  // removed meanwhile
        do {
            _ = try read(place, keyring, upTo: .max) {
                _ = try ItemEnvelope.openValue($0, id: $1, keyring: $2, now: ItemAttributes.beforeAnyExpiry)
            }
        } catch LockboxError.interactionNotAllowed {
            report.locked += 1
        }
        report.intact += 1
    }

    /// By what its header says, which nothing proves.
    private func isOfAnotherStore(_ record: RecordName, _ keyring: Keyring) throws -> Bool {
        var other = false
        do {
            _ = try storage.read(record, upTo: ItemHeader.length, maximum: ItemEnvelope.maximumLength) {
                other = ItemHeader.storeID($0).map { $0 != keyring.storeID } ?? false
            }
        } catch is LockboxError {
            return false
        }
        return other
    }

    private func keybagLocation(_ error: LockboxError) throws -> String {
        switch error {
        case .corrupt(let record, _), .authenticationFailed(let record), .unsupportedVersion(let record, _):
            record
        case .deviceKeyMismatch(let path), .unsafePermissions(let path, _): path
        default: throw error
        }
    }
}

extension VerifyReport {
    mutating func add(_ kind: Kind, _ location: String, _ reason: String) {
        findings.append(Finding(kind: kind, location: location, reason: reason))
    }

    mutating func add(_ error: LockboxError, _ location: String) {
        switch error {
        case .unsafePermissions(let path, let reason): add(.unsafePermissions, path, reason)
        case .deviceKeyMismatch(let path): add(.foreign, path, error.description)
        default: add(.damaged, location, error.description)
        }
    }
}
