// The Keychain's classes of items, on the backend that the first argument names.
//
//     swift run ItemClasses files key.der certificate.der          in your store
//     swift run ItemClasses memory key.der certificate.der         in memory
//     swift run ItemClasses keychain key.der certificate.der       in the simulation of Apple's Keychain
//     swift run ItemClasses files key.der certificate.der --keep   does not remove the items
//
// The files are a private key in PKCS#8 and its certificate, both in DER. The README.md of the examples has the lines
// that make them.

import LockboxIdentities
import LockboxKeychainTesting
import Foundation
import Lockbox
import LockboxKeychain
import Terminal

/// An item of each class. The code is the same on every backend.
struct ItemClasses {
    let lockbox: Lockbox
    let key: PrivateKeyItem
    let certificate: CertificateItem

    // An app has these from its user, or from a server.
    private let token = "hunter2 token"
    private let secret = Data("hunter2".utf8)

    // The items are found by these. LockboxIdentities reads them from the bytes; here the app itself gives them.
    private let description = ["description": "API token"]
    private let password = InternetPassword(server: "example.com", account: "alice", protocol: "https")
    private let keyAttributes = PrivateKeyItem.Attributes(tag: "com.example.items", algorithm: .ellipticCurve)
    private let certificateAttributes = CertificateItem.Attributes(
        label: "Web shop",
        subject: "CN=items.example.com"
    )

    init(_ lockbox: Lockbox, key: PrivateKeyItem, certificate: CertificateItem) {
        self.lockbox = lockbox
        self.key = key
        self.certificate = certificate
    }

    private var identity: IdentityItem {
        get throws { try IdentityItem(chain: [certificate], privateKey: key) }
    }

    func store() throws {
        try lockbox.archiveObject(
            token,
            forKey: "token",
            options: WriteOptions(attributes: .set(description))
        )
        try lockbox.archiveObject(secret, forKey: password.key)
        try lockbox.archiveObject(certificate, forKey: certificateAttributes.key("certificate"))
        try lockbox.archiveObject(key, forKey: keyAttributes.key("key"))
        let attributes = IdentityItem.Attributes(
            certificate: certificateAttributes,
            privateKey: keyAttributes
        )
        try lockbox.archiveObject(identity, forKey: attributes.key("identity"))
    }

    /// Finds an item of each class by a part of its attributes, and returns the keys.
    func find() throws -> [String] {
        let bySubject = CertificateItem.Attributes(subject: "CN=items.example.com")
        let byItsSubject = IdentityItem.Attributes(certificate: bySubject)
        let byTag = PrivateKeyItem.Attributes(tag: "com.example.items")
        var keys = try find("generic password", description, token) { found, _ in
            found.searchable["description"]
        }
        keys += try find("internet password", ["server": "example.com"], secret) { found, _ in
            InternetPassword(found)?.account
        }
        keys += try find("certificate", bySubject.searchable, certificate) { found, value in
            CertificateItem.Attributes(found)?.label.map { "\($0), \(value)" }
        }
        keys += try find("private key", byTag.searchable, key) { found, _ in
            PrivateKeyItem.Attributes(found)?.tag
        }
        keys += try find("identity", byItsSubject.searchable, identity) { found, value in
            IdentityItem.Attributes(found)?.certificate.label.map { "\($0), \(value)" }
        }
        return keys
    }

    /// Prints a line for each item that is found: its key and what it is, but never a secret.
    private func find<Value: Decodable & Equatable>(
        _ name: String,
        _ attributes: [String: String],
        _ stored: Value,
        _ text: (ItemAttributes, Value) -> String?
    ) throws -> [String] {
        let found = try lockbox.list(matching: attributes).items
        for (key, attributes) in found {
            guard let value = try lockbox.unarchiveObject(Value.self, forKey: key), value == stored else {
                throw Refusal("\(key) has another value")
            }
            print("\(name): \(key), \(text(attributes, value) ?? "of another class")")
        }
        return Array(found.keys)
    }

    func remove(_ keys: [String]) throws {
        try lockbox.batch { batch in for key in keys { try batch.removeObject(forKey: key) } }
    }
}

Terminal.run { arguments in
    let usage = Refusal("usage: ItemClasses files|memory|keychain KEY CERTIFICATE [--keep]")
    guard arguments.count == 3 || arguments.count == 4 && arguments[3] == "--keep" else { throw usage }
    let backends: [String: any LockboxBackend] = [
        "files": EncryptedFileBackend.default, "memory": InMemoryBackend(),
        // On Apple's systems, KeychainBackend() is the system's own.
        "keychain": KeychainBackend(KeychainSimulator()),
    ]
    guard let backend = backends[arguments[0]] else { throw usage }
    let items = ItemClasses(
        try Lockbox(keyPrefix: "com.example.item-classes", backend: backend),
        key: PrivateKeyItem(pkcs8: try Data(contentsOf: URL(filePath: arguments[1]))),
        certificate: CertificateItem(der: try Data(contentsOf: URL(filePath: arguments[2])))
    )
    try items.store()
    let keys = try items.find()
    if arguments.count == 3 { try items.remove(keys) }
    print("\(keys.count) items found, \(try items.lockbox.allKeys().count) left")
}
