import LockboxCore
import LockboxKeychain

/// What the internet passwords of one server have in common in the Keychain.
struct KeychainServer: Sendable {
    let server: String
    let port: Int?
    /// `kSecAttrProtocol`, such as `htps`.
    let `protocol`: String?
    /// `kSecAttrAuthenticationType`, such as `dflt`.
    let authenticationType: String?

    var query: KeychainCalls.Attributes {
        var query: KeychainCalls.Attributes = [
            KeychainName.class: .text(KeychainName.classInternetPassword),
            KeychainName.attrServer: .text(server),
        ]
        query[KeychainName.attrPort] = port.map { .int(Int64($0)) }
        query[KeychainName.attrProtocol] = `protocol`.map(KeychainValue.text)
        query[KeychainName.attrAuthenticationType] = authenticationType.map(KeychainValue.text)
        return query
    }

    /// Lockbox has schemes where the Keychain has codes of four letters.
    func password(_ account: String) -> InternetPassword {
        let scheme = `protocol`.map { code in
            switch code {
            case "htps": "https"
            case "imps": "imaps"
            default: code.filter { $0 != " " }
            }
        }
        let isDefault = authenticationType == "dflt"
        return InternetPassword(
            server: server,
            account: account,
            protocol: scheme,
            port: port,
            authenticationType: isDefault ? nil : authenticationType
        )
    }
}
