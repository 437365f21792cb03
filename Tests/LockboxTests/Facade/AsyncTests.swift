import Testing

/// Every call that may wait for a disk, a network or Argon2id has an async form with the same name.
@Suite struct AsyncTests {
    /// What has none, and why: calls, and types for all of their calls. A requirement of a protocol stands for what implements it.
    private static let exceptions: [String: Set<String>] = [
        "they are values in memory": [
            "ArchivedValue", "AttributeChange", "CertificateItem", "CertificateItem.Attributes",
            "Curve25519.KeyAgreement.PrivateKey", "Curve25519.Signing.PrivateKey",
            "DeviceKeySource", "EtcdSecurity", "EtcdUser", "ExportReport", "IdentityItem",
            "IdentityItem.Attributes",
            "ImportReport", "InternetPassword", "ItemAttributes", "ItemChanges", "ItemKey", "ItemList",
            "ItemOperation",
            "KeychainAccessControl", "KeychainValue", "LockboxBatch", "LockboxChanges", "LockboxError",
            "LockboxError.Code", "LockboxKey", "MacKeychains", "Migration", "Migration.Item",
            "MigrationReport", "MigrationReport.Item", "P256.Signing.PrivateKey",
            "P384.Signing.PrivateKey", "P521.Signing.PrivateKey", "PasscodeSource", "PrivateKeyItem",
            "PrivateKeyItem.Algorithm", "PrivateKeyItem.Attributes", "Record", "RecordChange",
            "RecordContents",
            "RecordName", "RecordRevision", "RecoveryCode", "RotationReport", "SlotEnrollment",
            "StorageLimits",
            "StoreFinding", "StoreProgress", "StoreReport", "StoreRequirements", "StoredItem",
            "TransferReport", "UnreadableItem", "ValueFormat", "VerifyReport", "WritePolicy",
            "X509.Certificate", "_RSA.Signing.PrivateKey",
        ],
        "they keep what they are given, and read the environment at most": [
            "static Lockbox.configure(keyPrefix:backend:coder:now:)", "static Lockbox.default()",
            "Lockbox.init(keyPrefix:coder:now:)", "Lockbox.init(keyPrefix:backend:coder:now:)",
            "LockboxItem.init(_:)", "LockboxItem.init(_:in:)", "LockboxItem.projectedValue()",
            "FailingBackend.init(_:)", "FailingBackend.fail(_:times:with:)", "FailingBackend.succeed()",
            "InMemoryBackend.init()", "KeychainBackend.init(_:accessGroup:isSynchronizable:accessControl:)",
            "SystemKeychain.init()", "SealedBackend.init(directory:deviceKey:requires:counter:)",
            "SealedBackend.init(storage:deviceKey:requires:)", "static SealedBackend.default()",
            "SealedBackend.isLockedIntoMemory()", "FileStorage.init(directory:isForOneMachine:)",
            "FileStorage.directory()",
            "InMemoryStorage.init()", "EtcdStorage.init(endpoints:root:security:user:timeLimit:)",
            "EtcdStorage.endpoints()", "KeyUnlock.init(_:)", "PasscodeUnlock.init(_:strength:)",
            "RecoveryCodeUnlock.init(_:)", "TPMUnlock.init(pin:strength:tcti:)",
            "FIDO2Unlock.init(device:pin:requiresUserVerification:)", "TPMCounter.init(index:tcti:)",
            "JSONValueCoder.init()", "static MigrationSource.backend(_:keyPrefix:)",
            "static MigrationSource.items(_:remove:)", "static MigrationSource.propertyList(at:)",
            "static MigrationSource.json(at:)", "static MigrationSource.environmentFile(at:)",
            "static MigrationSource.netrc(at:)", "static MigrationSource.userDefaults(suiteName:)",
            "static MigrationSource.lockboxKeychain(keyPrefix:accessGroup:keychains:calls:)",
            "static MigrationSource.keychain(service:accessGroup:isSynchronizable:keychains:calls:)",
            "static MigrationSource.keychain(server:port:protocol:authenticationType:accessGroup:isSynchronizable:keychains:calls:)",
            "static MigrationSource.valet(identifier:accessibility:isSynchronizable:calls:)",
            "static MigrationSource.valet(sharedGroup:prefix:identifier:accessibility:isSynchronizable:calls:)",
        ],
        "a backend does it for Lockbox, whose calls have async forms": [
            "LockboxBackend.maximumValueSize()", "LockboxBackend.isOnThisDevice()",
            "LockboxBackend.item(for:now:)", "LockboxBackend.value(for:now:)",
            "LockboxBackend.values(for:now:)", "LockboxBackend.attributes(for:now:)",
            "LockboxBackend.attributes(prefix:now:)", "LockboxBackend.forEachItem(prefix:now:unreadable:_:)",
            "LockboxBackend.write(_:to:policy:)", "LockboxBackend.write(_:policy:)",
            "LockboxBackend.apply(_:)", "LockboxBackend.update(_:now:_:)",
            "LockboxBackend.setAccessibility(_:for:now:)", "LockboxBackend.copy(_:to:policy:now:)",
            "LockboxBackend.move(_:to:policy:now:)", "LockboxBackend.moveInTwoSteps(_:to:policy:now:)",
            "LockboxBackend.remove(_:)",
            "LockboxBackend.removeAll(prefix:)", "LockboxBackend.removeExpired(prefix:now:)",
            "LockboxBackend.removeExpired(prefix:now:unreadable:)", "LockboxBackend.checkAccess(_:now:)",
            "LocatingBackend", "NotifyingBackend", "SynchronizingBackend", "ValueCoder",
        ],
        "a backend calls it, on the thread of the call that needs it": [
            "RecordStorage", "NotifyingStorage", "InspectableStorage", "QuarantiningStorage",
            "LockingStorage", "StorageLock",
            "GenerationCounter", "UnlockMethod", "KeychainCalls",
        ],
        "an async overload would break code for Lockbox 2 in async functions, which has no await": [
            "Lockbox.setString(_:forKey:accessibility:)", "Lockbox.string(forKey:)",
            "Lockbox.setArray(_:forKey:accessibility:)", "Lockbox.array(forKey:)",
            "Lockbox.setSet(_:forKey:accessibility:)", "Lockbox.set(forKey:)",
            "Lockbox.setDictionary(_:forKey:accessibility:)", "Lockbox.dictionary(forKey:)",
            "Lockbox.setDate(_:forKey:accessibility:)", "Lockbox.date(forKey:)",
            "static Lockbox.setString(_:forKey:accessibility:)", "static Lockbox.string(forKey:)",
            "static Lockbox.setArray(_:forKey:accessibility:)", "static Lockbox.array(forKey:)",
            "static Lockbox.setSet(_:forKey:accessibility:)", "static Lockbox.set(forKey:)",
            "static Lockbox.setDictionary(_:forKey:accessibility:)", "static Lockbox.dictionary(forKey:)",
            "static Lockbox.setDate(_:forKey:accessibility:)", "static Lockbox.date(forKey:)",
        ],
        "the async form has another name: unarchiveObject(forKey:)": ["Lockbox.subscript(key:)"],
        "the async form has another name: $name.value()": ["LockboxItem.wrappedValue()"],
        "a test calls it, and waits for its end in any case": [
            "BackendConformance", "StorageConformance", "KeychainSimulator",
        ],
        "it gives what is in memory, as swift-configuration's contract asks": [
            "LockboxConfigProvider.value(forKey:type:)", "LockboxConfigProvider.snapshot()",
        ],
    ]

    /// What is async and nothing else.
    private static let alwaysAsync: Set = ["LockboxConfigProvider", "LockboxChanges.Iterator"]

    /// They show or compare what is in memory.
    private static let standard: Set = ["description", "customMirror", "=="]

    private let sources: PublicSources

    init() throws { sources = try PublicSources() }

    @Test func everyCallHasAnAsyncForm() {
        let asynchronous = Set(sources.declarations.filter(\.isAsync).map(\.call))
        let synchronous = Set(sources.declarations.filter { !$0.isAsync }.map(\.call))
        #expect(synchronous.count > 400 && asynchronous.count > 80, "the control")
        #expect(sources.unknown == [])
        var unused = Set(Self.exceptions.values.joined())
        let all = unused
        var alone: [String] = []
        for call in synchronous where !Self.standard.contains(call.name) {
            // An async form may be an extension of the protocol, and an exception a requirement of it.
            let inherited = sources.protocols(of: call.type).map(call.of)
            if ([call] + inherited).contains(where: asynchronous.contains) { continue }
            let forms = [call] + inherited.filter(synchronous.contains)
            let reasons = Set(forms.flatMap { [$0.type, sources.name($0)] }).intersection(all)
            unused.subtract(reasons)
            if reasons.isEmpty { alone.append(sources.name(call)) }
        }
        #expect(alone.sorted() == [])
        #expect(unused == [], "no call needs these exceptions")
    }

    @Test func anAsyncFormHasTheNameAndTheParametersOfTheCall() {
        let synchronous = Set(sources.declarations.filter { !$0.isAsync }.map(\.call))
        let alone = sources.declarations.filter {
            $0.isAsync && !synchronous.contains($0.call) && !Self.alwaysAsync.contains($0.call.type)
        }
        #expect(alone.map { sources.name($0.call) } == [])
    }

    /// Where it leaves the thread: here, or in the form that it calls.
    @Test func everyAsyncFormRunsElsewhere() {
        let ways = ["await offPool", "await `default`.", "await lockbox()."]
        for form in sources.declarations where form.isAsync && !Self.alwaysAsync.contains(form.call.type) {
            #expect(ways.contains { form.body.contains($0) }, "\(form.call.fullSignature)")
        }
    }
}
