@_spi(Extensions) public import Lockbox
public import LockboxKeychain

/// Items that other libraries stored in Apple's Keychain.
///
/// The class, the label, the comment and the date of creation stay. `kSecAttrGeneric` and other attributes for which Lockbox has no
/// place become searchable attributes of those names. An old item is removed only if its date of
/// modification is still the one that was read. If any of these items is locked, `migrate` throws before it writes
/// anything. Items that need a fingerprint or a passcode to be read count as locked.
///
/// On macOS the Keychain does not compare that date. There, a value that another program changes in the moment between
/// the last read of the old item and its removal is lost, unless the program replaced the item.
///
/// macOS has two keychains, see ``MacKeychains``. Programs that do not set `kSecUseDataProtectionKeychain` have their
/// items in the file-based one.
///
/// > Important: These sources are tested on a simulation of the Keychain's documented rules, as ``KeychainBackend`` is.
extension MigrationSource {
    /// Items that Lockbox 2, Lockbox 3 or Strongbox stored in the Keychain: the service is `<prefix>.<key>`, and there
    /// is no account.
    ///
    /// - Parameters:
    ///   - keyPrefix: The old prefix: Lockbox 2 and 3 used the bundle identifier. If `nil`, the lockbox's.
    ///   - accessGroup: The items' access group. If `nil`, all groups of the program are searched, and an item that is
    ///     in two of them is refused.
    ///   - keychains: The keychains of macOS that are read.
    ///   - calls: The Keychain. By default the system's.
    public static func lockboxKeychain(
        keyPrefix: String? = nil,
        accessGroup: String? = nil,
        keychains: MacKeychains = .all,
        calls: any KeychainCalls = SystemKeychain()
    ) -> MigrationSource {
        MigrationSource { lockbox in
            KeychainSourceItems(
                calls: calls,
                naming: .service(prefix: keyPrefix ?? lockbox.keyPrefix),
                accessGroup: accessGroup,
                isSynchronizable: false,
                keychains: keychains
            )
        }
    }

    /// Items that KeychainAccess or another wrapper stored as generic passwords of one service, with their keys as
    /// accounts.
    ///
    /// - Parameters:
    ///   - service: The service, as in `Keychain(service:)` of KeychainAccess. Its default is the bundle identifier.
    ///   - accessGroup: The items' access group. If `nil`, all groups of the program are searched, and an item that is
    ///     in two of them is refused.
    ///   - isSynchronizable: Whether the items are those of iCloud Keychain. If `nil`, both kinds are read, and an item
    ///     that exists as both is refused.
    ///   - keychains: The keychains of macOS that are read.
    ///   - calls: The Keychain. By default the system's.
    public static func keychain(
        service: String,
        accessGroup: String? = nil,
        isSynchronizable: Bool? = nil,
        keychains: MacKeychains = .all,
        calls: any KeychainCalls = SystemKeychain()
    ) -> MigrationSource {
        MigrationSource { _ in
            KeychainSourceItems(
                calls: calls,
                naming: .account(service: service),
                accessGroup: accessGroup,
                isSynchronizable: isSynchronizable,
                keychains: keychains
            )
        }
    }

    /// Items that KeychainAccess or another wrapper stored as internet passwords of one server, with their keys as
    /// accounts.
    ///
    /// The new items have the searchable attributes of an ``InternetPassword``. To store them where that looks for them,
    /// migrate each to its key:
    ///
    /// ```swift
    /// let password = InternetPassword(server: "example.com", account: "alice", protocol: "https")
    /// let item = Migration.Item.data("alice", to: password.key.name)
    /// ```
    ///
    /// - Parameters:
    ///   - server: The server's name, as in `Keychain(server:protocolType:)` of KeychainAccess.
    ///   - port: The port. If `nil`, any.
    ///   - protocol: The code of `kSecAttrProtocol`, such as `htps`. If `nil`, any.
    ///   - authenticationType: The code of `kSecAttrAuthenticationType`, such as `dflt`. If `nil`, any.
    ///   - accessGroup: The items' access group. If `nil`, all groups of the program are searched, and an item that is
    ///     in two of them is refused.
    ///   - isSynchronizable: Whether the items are those of iCloud Keychain. If `nil`, both kinds are read, and an item
    ///     that exists as both is refused.
    ///   - keychains: The keychains of macOS that are read.
    ///   - calls: The Keychain. By default the system's.
    public static func keychain(
        server: String,
        port: Int? = nil,
        protocol: String? = nil,
        authenticationType: String? = nil,
        accessGroup: String? = nil,
        isSynchronizable: Bool? = nil,
        keychains: MacKeychains = .all,
        calls: any KeychainCalls = SystemKeychain()
    ) -> MigrationSource {
        let server = KeychainServer(
            server: server,
            port: port,
            protocol: `protocol`,
            authenticationType: authenticationType
        )
        return MigrationSource { _ in
            KeychainSourceItems(
                calls: calls,
                naming: .server(server),
                accessGroup: accessGroup,
                isSynchronizable: isSynchronizable,
                keychains: keychains
            )
        }
    }

    /// Items that Valet stored: those of `Valet.valet(with:accessibility:)`, and of `iCloudValet(with:accessibility:)`.
    ///
    /// A valet of the Secure Enclave cannot be read without the user: read it with Valet, and pass the bytes.
    ///
    /// - Parameters:
    ///   - identifier: The valet's identifier.
    ///   - accessibility: The valet's accessibility, which is part of its service's name. Valet has none of the `always`
    ///     classes.
    ///   - isSynchronizable: Whether it is an iCloud valet.
    ///   - calls: The Keychain. By default the system's.
    public static func valet(
        identifier: String,
        accessibility: Accessibility,
        isSynchronizable: Bool = false,
        calls: any KeychainCalls = SystemKeychain()
    ) -> MigrationSource {
        let start = "VAL_\(valetKind(isSynchronizable))_initWithIdentifier:accessibility:"
        let service = "\(start)_\(identifier)_\(accessibility.valetName)"
        return valet(service: service, accessGroup: nil, isSynchronizable, calls)
    }

    /// Items of a valet that several programs share: `Valet.sharedGroupValet(with:accessibility:)`.
    ///
    /// - Parameters:
    ///   - sharedGroup: The group's identifier, without the prefix.
    ///   - prefix: The team identifier, or `group`: what stands before the identifier in the access group.
    ///   - identifier: The valet's identifier within the group, if it has one.
    ///   - accessibility: The valet's accessibility, which is part of its service's name.
    ///   - isSynchronizable: Whether it is an iCloud valet.
    ///   - calls: The Keychain. By default the system's.
    public static func valet(
        sharedGroup: String,
        prefix: String,
        identifier: String? = nil,
        accessibility: Accessibility,
        isSynchronizable: Bool = false,
        calls: any KeychainCalls = SystemKeychain()
    ) -> MigrationSource {
        let start = "VAL_\(valetKind(isSynchronizable))_initWithSharedAccessGroupIdentifier:accessibility:"
        let parts = [start, sharedGroup, identifier, accessibility.valetName].compactMap { $0 }
        let service = parts.joined(separator: "_")
        return valet(service: service, accessGroup: "\(prefix).\(sharedGroup)", isSynchronizable, calls)
    }

    private static func valetKind(_ isSynchronizable: Bool) -> String {
        isSynchronizable ? "VALSynchronizableValet" : "VALValet"
    }

    private static func valet(
        service: String,
        accessGroup: String?,
        _ isSynchronizable: Bool,
        _ calls: any KeychainCalls
    ) -> MigrationSource {
        MigrationSource { _ in
            KeychainSourceItems(
                calls: calls,
                naming: .account(service: service),
                accessGroup: accessGroup,
                isSynchronizable: isSynchronizable,
                keychains: .dataProtection,  // Valet reads no other
                // Valet's own, which it writes to see whether the Keychain can be used.
                otherAccount: "VAL_KeychainCanaryUsername"
            )
        }
    }
}

extension Accessibility {
    /// The name that Valet writes into a service's name.
    fileprivate var valetName: String { "Accessible\(rawName.prefix(1).uppercased())\(rawName.dropFirst())" }

    private var rawName: String { "\(self)" }
}
