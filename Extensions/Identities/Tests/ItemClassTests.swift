import LockboxIdentities
import Foundation
@_spi(Extensions) import LockboxTesting
import Testing

import Lockbox
@_spi(Extensions) import LockboxStore

/// Certificates, keys and identities as items: the same on every backend.
@Suite struct ItemClassTests {
    private static let backends = ["sealed", "memory"]

    private func lockbox(_ backend: String) throws -> Lockbox {
        if backend == "memory" { return try Lockbox(keyPrefix: "p", backend: InMemoryBackend()) }
        let key = DeviceKeySource.closure { [UInt8](repeating: 7, count: 32) }
        let sealed = SealedBackend(storage: InMemoryStorage(), deviceKey: key)
        return try Lockbox(keyPrefix: "p", backend: sealed)
    }

    private let hash = Data((0..<20).map { UInt8($0 * 12) })
    private let end = Date(timeIntervalSince1970: 1_800_000_000)

    private func certificate(_ label: String? = "web", serial: [UInt8] = [0x0a, 0xff])
        -> CertificateItem.Attributes
    {
        CertificateItem.Attributes(
            label: label,
            subject: "CN=example.com,O=Größe \\, Co.",
            issuer: "CN=Example CA",
            serialNumber: Data(serial),
            subjectKeyID: Data([1, 2, 3]),
            publicKeyHash: hash,
            version: 3,
            notAfter: end
        )
    }

    private var key: PrivateKeyItem.Attributes {
        PrivateKeyItem.Attributes(
            label: "web",
            tag: "com.example.web",
            publicKeyHash: hash,
            algorithm: .ellipticCurve,
            bitCount: 256
        )
    }

    private func names(_ lockbox: Lockbox, _ texts: [String: String]) throws -> Set<String> {
        let list = try lockbox.list(matching: texts)
        #expect(list.unreadable.isEmpty)
        return Set(list.items.keys)
    }

    @Test(arguments: backends) func certificatesAreStoredFoundAndRemoved(_ backend: String) throws {
        let lockbox = try lockbox(backend)
        let value = CertificateItem(der: Data([0x30, 0x03, 0x02, 0x01, 0x05]))
        let attributes = certificate()
        try lockbox.archiveObject(value, forKey: attributes.key("first"))
        let other = certificate("mail", serial: [0x0b])
        try lockbox.archiveObject(CertificateItem(der: Data([0x30, 0])), forKey: other.key("second"))
        try lockbox.archiveObject(PrivateKeyItem(pkcs8: Data([0x30, 0])), forKey: key.key("key"))

        #expect(try lockbox.unarchiveObject(forKey: "first") == value)
        #expect(try lockbox.unarchiveObject(forKey: attributes.key("first")) == value)
        let stored = try #require(try lockbox.attributes(forKey: "first"))
        #expect(CertificateItem.Attributes(stored) == attributes)
        #expect(PrivateKeyItem.Attributes(stored) == nil && IdentityItem.Attributes(stored) == nil)
        #expect(stored.label == "web" && stored.expires == nil)
        #expect(
            stored.searchable == [
                "class": "cert", "ctyp": "3", "cenc": "3", "labl": "web", "issr": "CN=Example CA",
                "subj": "CN=example.com,O=Größe \\, Co.", "slnr": "0aff", "skid": "010203",
                "pkhh": "000c1824303c4854606c7884909ca8b4c0ccd8e4", "notAfter": "2027-01-15T08:00:00Z",
            ]
        )

        let queries: [(CertificateItem.Attributes, Set<String>)] = [
            (.init(label: "mail"), ["second"]),
            (.init(subject: "CN=example.com,O=Größe \\, Co."), ["first", "second"]),
            (.init(issuer: "CN=Example CA", serialNumber: Data([0, 0, 0x0a, 0xff])), ["first"]),
            (.init(issuer: "CN=Another CA", serialNumber: Data([0x0a, 0xff])), []),
            (.init(publicKeyHash: hash), ["first", "second"]),
            (.init(subjectKeyID: Data([1, 2])), []),
            (.init(), ["first", "second"]),
        ]
        for (query, expected) in queries {
            #expect(try names(lockbox, query.searchable) == expected, "\(query)")
        }
        try lockbox.removeObject(forKey: attributes.key("first"))
        #expect(try names(lockbox, CertificateItem.Attributes().searchable) == ["second"])
    }

    @Test(arguments: backends) func privateKeysAreStoredFoundAndRemoved(_ backend: String) async throws {
        let lockbox = try lockbox(backend)
        let value = PrivateKeyItem(pkcs8: Data([0x30, 0x03, 0x02, 0x01, 0x00]))
        try await lockbox.archiveObject(value, forKey: key.key("key", accessibility: .afterFirstUnlock))
        let other = PrivateKeyItem.Attributes(tag: "other", algorithm: .rsa, bitCount: 2048)
        try await lockbox.archiveObject(value, forKey: other.key("other"))
        try await lockbox.archiveObject(
            CertificateItem(der: Data()),
            forKey: certificate().key("certificate")
        )

        #expect(try await lockbox.unarchiveObject(PrivateKeyItem.self, forKey: "key") == value)
        let stored = try #require(try await lockbox.async { try $0.attributes(forKey: "key") })
        #expect(PrivateKeyItem.Attributes(stored) == key && stored.accessibility == .afterFirstUnlock)
        #expect(CertificateItem.Attributes(stored) == nil && IdentityItem.Attributes(stored) == nil)
        #expect(
            stored.searchable == [
                "class": "keys", "kcls": "1", "labl": "web", "atag": "com.example.web", "type": "73",
                "bsiz": "256", "klbl": "000c1824303c4854606c7884909ca8b4c0ccd8e4",
            ]
        )
        let queries: [(PrivateKeyItem.Attributes, Set<String>)] = [
            (.init(label: "web"), ["key"]), (.init(tag: "other"), ["other"]),
            (.init(publicKeyHash: hash), ["key"]), (.init(algorithm: .rsa, bitCount: 2048), ["other"]),
            (.init(algorithm: .ed25519), []), (.init(), ["key", "other"]),
        ]
        for (query, expected) in queries {
            #expect(try names(lockbox, query.searchable) == expected, "\(query)")
        }
        try await lockbox.removeObject(forKey: "key")
        #expect(try names(lockbox, PrivateKeyItem.Attributes().searchable) == ["other"])
    }

    @Test(arguments: backends) func identitiesAreStoredFoundAndReplacedWhole(_ backend: String) throws {
        let lockbox = try lockbox(backend)
        let leaf = CertificateItem(der: Data([0x30, 1, 1]))
        let issuer = CertificateItem(der: Data([0x30, 1, 2]))
        let identity = try IdentityItem(
            chain: [leaf, issuer],
            privateKey: PrivateKeyItem(pkcs8: Data([0x30, 1, 3]))
        )
        #expect(identity.certificate == leaf && identity.certificates == [leaf, issuer])
        let attributes = IdentityItem.Attributes(certificate: certificate(), privateKey: key)
        try lockbox.archiveObject(identity, forKey: attributes.key("tls"))
        try lockbox.archiveObject(leaf, forKey: certificate().key("certificate"))
        try lockbox.archiveObject(identity.privateKey, forKey: key.key("key"))

        #expect(try lockbox.unarchiveObject(forKey: "tls") == identity)
        let stored = try #require(try lockbox.attributes(forKey: "tls"))
        #expect(
            IdentityItem.Attributes(stored) == attributes && stored.label == "web" && stored.expires == nil
        )
        #expect(CertificateItem.Attributes(stored) == nil && PrivateKeyItem.Attributes(stored) == nil)
        #expect(attributes.certificate == certificate() && attributes.privateKey == key)
        let byNumber = CertificateItem.Attributes(issuer: "CN=Example CA", serialNumber: Data([0x0a, 0xff]))
        for certificate in [byNumber, .init(publicKeyHash: hash), .init(label: "web")] {
            let query = IdentityItem.Attributes(certificate: certificate)
            #expect(try names(lockbox, query.searchable) == ["tls"])
        }
        let byTag = IdentityItem.Attributes(privateKey: .init(tag: "com.example.web"))
        #expect(try names(lockbox, byTag.searchable) == ["tls"])

        // Renewed: another key and chain under the same name, with what they are found by.
        let renewed = try IdentityItem(
            chain: [issuer],
            privateKey: PrivateKeyItem(pkcs8: Data([0x30, 1, 4]))
        )
        let renewal = IdentityItem.Attributes(certificate: certificate("web", serial: [7]))
        try lockbox.archiveObject(
            renewed,
            forKey: renewal.key("tls"),
            options: WriteOptions(policy: .updateOnly)
        )
        #expect(try lockbox.unarchiveObject(IdentityItem.self, forKey: "tls") == renewed)
        #expect(try names(lockbox, IdentityItem.Attributes(certificate: byNumber).searchable) == [])
        #expect(try names(lockbox, renewal.searchable) == ["tls"])
    }

    /// It is there to warn by. The item outlives it.
    @Test(arguments: backends) func aCertificateThatHasEndedIsStillThere(_ backend: String) throws {
        let lockbox = try lockbox(backend)
        let ended = CertificateItem.Attributes(notAfter: Date(timeIntervalSince1970: 1_000_000_000.75))
        try lockbox.archiveObject(CertificateItem(der: Data([0x30, 0])), forKey: ended.key("old"))
        #expect(try lockbox.removeExpired() == 0)
        #expect(try lockbox.unarchiveObject(CertificateItem.self, forKey: "old") != nil)
        let found = try lockbox.list(matching: CertificateItem.Attributes().searchable).items.values
        let ends = found.compactMap { CertificateItem.Attributes($0)?.notAfter }
        #expect(ends == [Date(timeIntervalSince1970: 1_000_000_000)])
    }

    @Test func anIdentityHasACertificate() throws {
        let error = LockboxError.invalidAttribute(name: "identity", reason: "it has no certificate")
        #expect(throws: error) { try IdentityItem(chain: [], privateKey: PrivateKeyItem(pkcs8: Data([1]))) }
        let lockbox = try lockbox("memory")
        try lockbox.archiveObject(["chain": [String]()], forKey: "k")
        let decoding = lockboxError { try lockbox.unarchiveObject(IdentityItem.self, forKey: "k") }
        #expect(decoding?.code == .decodingFailed)
    }

    @Test func numbersAndDatesAreOfOneForm() {
        #expect(CertificateItem.Attributes(serialNumber: Data([0, 0])).searchable["slnr"] == "00")
        #expect(CertificateItem.Attributes(serialNumber: Data([0, 0x80])).searchable["slnr"] == "80")
        #expect(CertificateItem.Attributes(serialNumber: Data()).searchable["slnr"] == "")
        func end(_ date: Date) -> String? {
            CertificateItem.Attributes(notAfter: date).searchable["notAfter"]
        }
        #expect(end(.distantFuture.addingTimeInterval(1e15)) == "9999-12-31T23:59:59Z")
        #expect(end(.distantPast.addingTimeInterval(-1e15)) == "1600-01-01T00:00:00Z")
        #expect(end(Date(timeIntervalSince1970: .infinity)) == nil)
        #expect(end(Date(timeIntervalSince1970: .nan)) == nil)
    }

    /// A name can be longer than an attribute: the item is refused, and not stored under a part of it.
    @Test func aSubjectThatIsTooLongIsRefused() throws {
        let lockbox = try lockbox("memory")
        let attributes = CertificateItem.Attributes(subject: String(repeating: "x", count: 4097))
        let error = lockboxError {
            try lockbox.archiveObject(CertificateItem(der: Data()), forKey: attributes.key("k"))
        }
        #expect(error?.code == .invalidAttribute)
        #expect(try lockbox.allKeys().isEmpty)
    }

    @Test func attributesThatAreNotOfTheClassAreNone() throws {
        let lockbox = try lockbox("memory")
        try lockbox.archiveObject(
            "v",
            forKey: "k",
            options: WriteOptions(attributes: ["subj": "CN=a", "slnr": "+1", "bsiz": "x"])
        )
        let stored = try #require(try lockbox.attributes(forKey: "k"))
        #expect(CertificateItem.Attributes(stored) == nil && PrivateKeyItem.Attributes(stored) == nil)
        try lockbox.archiveObject(
            "v",
            forKey: "k",
            options: WriteOptions(attributes: ["class": "cert", "slnr": "+1", "skid": "abc"])
        )
        let strange = try #require(try lockbox.attributes(forKey: "k"))
        #expect(CertificateItem.Attributes(strange) == CertificateItem.Attributes())
    }
}
