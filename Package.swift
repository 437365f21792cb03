// swift-tools-version: 6.2
import PackageDescription

let settings: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
]

let package = Package(
    name: "Lockbox",
    // `String(validating:as:)` sets these minimums; Linux has none.
    platforms: [.macOS(.v15), .iOS(.v18), .tvOS(.v18), .watchOS(.v11), .visionOS(.v2)],
    products: [
        // An extension imports the modules below by their names.
        .library(name: "Lockbox", targets: ["Lockbox", "LockboxStore", "LockboxCore", "LockboxPlatform"]),
        .library(name: "LockboxImport", targets: ["LockboxImport"]),
        .library(name: "LockboxUserDefaults", targets: ["LockboxUserDefaults"]),
        .library(name: "LockboxTesting", targets: ["LockboxTesting"]),
        .library(name: "LockboxKeychain", targets: ["LockboxKeychain"]),
        .library(name: "LockboxKeychainMigration", targets: ["LockboxKeychainMigration"]),
        .library(name: "LockboxKeychainTesting", targets: ["LockboxKeychainTesting"]),
        .library(name: "LockboxTPM", targets: ["LockboxTPM"]),
        .library(name: "LockboxFIDO2", targets: ["LockboxFIDO2"]),
        .library(name: "LockboxEtcd", targets: ["LockboxEtcd"]),
        .library(name: "LockboxSecretService", targets: ["LockboxSecretService"]),
        .library(name: "LockboxIdentities", targets: ["LockboxIdentities"]),
        .library(name: "LockboxConfiguration", targets: ["LockboxConfiguration"]),
    ],
    traits: [
        .trait(name: "TPM", description: "LockboxTPM, which needs tpm2-tss"),
        .trait(name: "FIDO2", description: "LockboxFIDO2, which needs libfido2"),
        .trait(name: "Etcd", description: "LockboxEtcd, which needs libcurl"),
        .trait(
            name: "SecretService",
            description: "LockboxSecretService, which needs libsystemd and libcrypto"
        ),
        .trait(
            name: "Identities",
            description: "LockboxIdentities, which needs swift-crypto and swift-certificates"
        ),
        .trait(
            name: "Configuration",
            description: "LockboxConfiguration, which needs swift-configuration and swift-service-lifecycle"
        ),
    ],
    // Only for the two traits above: without them, none is resolved.
    dependencies: [
        .package(url: "https://github.com/apple/swift-crypto", from: "4.5.2"),
        .package(url: "https://github.com/apple/swift-certificates", from: "1.21.1"),
        .package(url: "https://github.com/apple/swift-asn1", from: "1.7.4"),
        .package(url: "https://github.com/apple/swift-configuration", from: "1.4.0", traits: []),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
    ],
    targets: [
        .systemLibrary(
            name: "Clibsodium",
            path: "Sources/System/Clibsodium",
            pkgConfig: "libsodium",
            providers: [.apt(["libsodium-dev"]), .brew(["libsodium"])]
        ),
        .target(name: "CLinux", path: "Sources/System/CLinux"),
        .target(
            name: "LockboxPlatform",
            dependencies: ["CLinux"],
            path: "Sources/System/LockboxPlatform",
            swiftSettings: settings
        ),
        .target(name: "LockboxCore", dependencies: ["LockboxPlatform"], swiftSettings: settings),
        .target(
            name: "LockboxAge",
            dependencies: ["LockboxPlatform", "Clibsodium"],
            swiftSettings: settings
        ),
        .target(
            name: "LockboxStore",
            dependencies: ["LockboxCore", "LockboxPlatform", "Clibsodium", "CLinux"],
            swiftSettings: settings
        ),
        .target(
            name: "LockboxBackup",
            dependencies: ["LockboxAge", "LockboxCore", "LockboxStore", "LockboxPlatform"],
            swiftSettings: settings
        ),
        .target(
            name: "Lockbox",
            dependencies: ["LockboxBackup", "LockboxCore", "LockboxStore", "LockboxPlatform"],
            swiftSettings: settings
        ),
        .target(
            name: "LockboxTesting",
            dependencies: ["Lockbox", "LockboxCore", "LockboxStore", "LockboxPlatform", "Clibsodium"],
            swiftSettings: settings
        ),

        // Import
        .target(
            name: "LockboxImport",
            dependencies: ["Lockbox", "LockboxStore", "LockboxCore", "LockboxPlatform"],
            path: "Extensions/Import/Sources",
            swiftSettings: settings
        ),
        .testTarget(
            name: "LockboxImportTests",
            dependencies: ["Lockbox", "LockboxImport", "LockboxStore"],
            path: "Extensions/Import/Tests",
            swiftSettings: settings
        ),

        // Etcd
        .systemLibrary(
            name: "CCurl",
            path: "Extensions/Etcd/CCurl",
            pkgConfig: "libcurl",
            providers: [.apt(["libcurl4-openssl-dev"]), .brew(["curl"])]
        ),
        .target(
            name: "LockboxEtcd",
            dependencies: [
                "LockboxCore", "LockboxStore", "LockboxPlatform",
                .target(name: "CCurl", condition: .when(traits: ["Etcd"])),
            ],
            path: "Extensions/Etcd/Sources",
            swiftSettings: settings
        ),
        .testTarget(
            name: "LockboxEtcdTests",
            dependencies: ["Lockbox", "LockboxEtcd", "LockboxStore", "LockboxTesting"],
            path: "Extensions/Etcd/Tests",
            swiftSettings: settings
        ),

        // TPM
        .systemLibrary(
            name: "CTSS2",
            path: "Extensions/TPM/CTSS2",
            pkgConfig: "tss2-esys tss2-tctildr tss2-mu tss2-rc",
            providers: [.apt(["libtss2-dev"])]
        ),
        .target(
            name: "LockboxTPM",
            dependencies: [
                "LockboxCore", "LockboxStore", "LockboxPlatform",
                .target(name: "CTSS2", condition: .when(traits: ["TPM"])),
            ],
            path: "Extensions/TPM/Sources",
            swiftSettings: settings
        ),
        .testTarget(
            name: "LockboxTPMTests",
            dependencies: [
                "LockboxTPM", "LockboxStore", .target(name: "CTSS2", condition: .when(traits: ["TPM"])),
            ],
            path: "Extensions/TPM/Tests",
            swiftSettings: settings
        ),

        // FIDO2
        .systemLibrary(
            name: "CFIDO2",
            path: "Extensions/FIDO2/CFIDO2",
            pkgConfig: "libfido2",
            providers: [.apt(["libfido2-dev"]), .brew(["libfido2"])]
        ),
        .systemLibrary(
            name: "CCrypto",
            path: "Extensions/FIDO2/CCrypto",
            pkgConfig: "libcrypto",
            providers: [.apt(["libssl-dev"]), .brew(["openssl"])]
        ),
        .target(
            name: "LockboxFIDO2",
            dependencies: [
                "LockboxCore", "LockboxStore", "LockboxPlatform",
                .target(name: "CFIDO2", condition: .when(traits: ["FIDO2"])),
            ],
            path: "Extensions/FIDO2/Sources",
            swiftSettings: settings
        ),
        .testTarget(
            name: "LockboxFIDO2Tests",
            dependencies: [
                "LockboxFIDO2", "LockboxStore",
                .target(name: "CFIDO2", condition: .when(traits: ["FIDO2"])),
                .target(name: "CCrypto", condition: .when(traits: ["FIDO2"])),
            ],
            path: "Extensions/FIDO2/Tests",
            swiftSettings: settings
        ),

        // SecretService
        .systemLibrary(
            name: "CSystemd",
            path: "Extensions/SecretService/CSystemd",
            pkgConfig: "libsystemd",
            providers: [.apt(["libsystemd-dev"])]
        ),
        .systemLibrary(
            name: "COpenSSL",
            path: "Extensions/SecretService/COpenSSL",
            pkgConfig: "libcrypto",
            providers: [.apt(["libssl-dev"])]
        ),
        .target(
            name: "LockboxSecretService",
            dependencies: [
                "Lockbox", "LockboxCore", "LockboxStore", "LockboxPlatform",
                .target(name: "CSystemd", condition: .when(traits: ["SecretService"])),
                .target(name: "COpenSSL", condition: .when(traits: ["SecretService"])),
            ],
            path: "Extensions/SecretService/Sources",
            swiftSettings: settings
        ),
        .testTarget(
            name: "LockboxSecretServiceTests",
            dependencies: [
                "Lockbox", "LockboxCore", "LockboxSecretService", "LockboxStore", "LockboxTesting",
            ],
            path: "Extensions/SecretService/Tests",
            swiftSettings: settings
        ),

        // Keychain
        .target(
            name: "LockboxKeychain",
            dependencies: ["LockboxCore", "LockboxPlatform"],
            path: "Extensions/Keychain/Sources/LockboxKeychain",
            swiftSettings: settings
        ),
        .target(
            name: "LockboxKeychainMigration",
            dependencies: ["Lockbox", "LockboxKeychain", "LockboxPlatform"],
            path: "Extensions/Keychain/Sources/LockboxKeychainMigration",
            swiftSettings: settings
        ),
        .target(
            name: "LockboxKeychainTesting",
            dependencies: ["LockboxCore", "LockboxKeychain", "LockboxPlatform"],
            path: "Extensions/Keychain/Sources/LockboxKeychainTesting",
            swiftSettings: settings
        ),
        .testTarget(
            name: "LockboxKeychainTests",
            dependencies: [
                "Lockbox", "LockboxImport", "LockboxKeychain", "LockboxKeychainMigration",
                "LockboxKeychainTesting", "LockboxStore", "LockboxTesting",
            ],
            path: "Extensions/Keychain/Tests",
            swiftSettings: settings
        ),

        // UserDefaults
        .target(
            name: "LockboxUserDefaults",
            dependencies: ["Lockbox", "LockboxImport"],
            path: "Extensions/UserDefaults/Sources",
            swiftSettings: settings
        ),
        .executableTarget(
            name: "LockboxUserDefaultsTestProcess",
            dependencies: ["Lockbox", "LockboxUserDefaults"],
            path: "Extensions/UserDefaults/TestProcess",
            swiftSettings: settings
        ),
        .testTarget(
            name: "LockboxUserDefaultsTests",
            dependencies: [
                "Lockbox", "LockboxImport", "LockboxUserDefaults", "LockboxUserDefaultsTestProcess",
                "LockboxStore",
            ],
            path: "Extensions/UserDefaults/Tests",
            swiftSettings: settings
        ),

        // Identities
        .target(
            name: "LockboxIdentities",
            dependencies: [
                "Lockbox", "LockboxCore", "LockboxPlatform",
                .product(name: "Crypto", package: "swift-crypto", condition: .when(traits: ["Identities"])),
                .product(
                    name: "CryptoExtras",
                    package: "swift-crypto",
                    condition: .when(traits: ["Identities"])
                ),
                .product(
                    name: "X509",
                    package: "swift-certificates",
                    condition: .when(traits: ["Identities"])
                ),
                .product(name: "SwiftASN1", package: "swift-asn1", condition: .when(traits: ["Identities"])),
            ],
            path: "Extensions/Identities/Sources",
            swiftSettings: settings
        ),
        .testTarget(
            name: "LockboxIdentitiesTests",
            dependencies: ["Lockbox", "LockboxIdentities", "LockboxStore", "LockboxTesting"],
            path: "Extensions/Identities/Tests",
            swiftSettings: settings
        ),

        // Configuration
        .target(
            name: "LockboxConfiguration",
            dependencies: [
                "Lockbox", "LockboxCore", "LockboxPlatform",
                .product(
                    name: "Configuration",
                    package: "swift-configuration",
                    condition: .when(traits: ["Configuration"])
                ),
                .product(
                    name: "ServiceLifecycle",
                    package: "swift-service-lifecycle",
                    condition: .when(traits: ["Configuration"])
                ),
            ],
            path: "Extensions/Configuration/Sources",
            swiftSettings: settings
        ),

        .executableTarget(
            name: "LockboxTestProcess",
            dependencies: [
                "Lockbox", "LockboxImport", "LockboxTesting", "Clibsodium",
                .target(name: "LockboxEtcd", condition: .when(traits: ["Etcd"])),
            ],
            path: "Proofs/TestProcess",
            swiftSettings: settings
        ),
        // Each of these compiles Tests/Support, to which it has a link.
        .testTarget(
            name: "LockboxKeysTests",
            dependencies: ["Lockbox", "LockboxTesting", "LockboxTestProcess", "CLinux"],
            swiftSettings: settings
        ),
        .testTarget(
            name: "LockboxStoreTests",
            dependencies: ["Lockbox", "LockboxTesting", "LockboxTestProcess"],
            resources: [.copy("Vectors")],
            swiftSettings: settings
        ),
        .testTarget(
            name: "LockboxBackupTests",
            dependencies: ["Lockbox", "LockboxTesting", "LockboxTestProcess"],
            swiftSettings: settings
        ),
        .testTarget(
            name: "LockboxTestingTests",
            dependencies: ["Lockbox", "LockboxTesting"],
            swiftSettings: settings
        ),
        .testTarget(
            name: "LockboxTests",
            dependencies: ["Lockbox", "LockboxTesting", "LockboxTestProcess"],
            swiftSettings: settings
        ),
    ],
    swiftLanguageModes: [.v6]
)
