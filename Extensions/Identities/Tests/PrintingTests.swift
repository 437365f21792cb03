import Foundation
import LockboxIdentities
import Testing

/// However a program prints a public value, it shows no key.
@Suite struct PrintingTests {
    @Test("Promise 7: no way of printing a public value shows a secret, a key or a closure")
    func noWayOfPrintingShowsASecret() throws {
        let secret = "hunter2"
        let key = PrivateKeyItem(pkcs8: Data(secret.utf8))
        let certificate = CertificateItem(der: Data([0x30, 0]))
        let samples: [String: [Any]] = [
            "CertificateItem": [certificate], "PrivateKeyItem": [key, Optional(key) as Any],
            "IdentityItem": [try IdentityItem(chain: [certificate], privateKey: key)],
            "PrivateKeyItem.Algorithm": [PrivateKeyItem.Algorithm.rsa],
            "CertificateItem.Attributes": [CertificateItem.Attributes()],
            "PrivateKeyItem.Attributes": [PrivateKeyItem.Attributes()],
            "IdentityItem.Attributes": [IdentityItem.Attributes()],
        ]
        expectPrintingHides([secret], in: samples)
    }
}
