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
        .library(name: "Lockbox", targets: ["Lockbox"]),
        .library(name: "LockboxUserDefaults", targets: ["LockboxUserDefaults"]),
        .library(name: "LockboxTesting", targets: ["LockboxTesting"]),
        .library(name: "LockboxKeychain", targets: ["LockboxKeychain"]),
        .library(name: "LockboxKeychainMigration", targets: ["LockboxKeychainMigration"]),
        .library(name: "LockboxTPM", targets: ["LockboxTPM"]),
        .library(name: "LockboxFIDO2", targets: ["LockboxFIDO2"]),
        .library(name: "LockboxEtcd", targets: ["LockboxEtcd"]),
        .library(name: "LockboxIdentities", targets: ["LockboxIdentities"]),
        .library(name: "LockboxConfiguration", targets: ["LockboxConfiguration"]),
    ],
    traits: [
        .trait(name: "TPM", description: "LockboxTPM, which needs tpm2-tss"),
        .trait(name: "FIDO2", description: "LockboxFIDO2, which needs libfido2"),
        .trait(name: "Etcd", description: "LockboxEtcd, which needs libcurl"),
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
            pkgConfig: "libsodium",
            providers: [.apt(["libsodium-dev"]), .brew(["libsodium"])]
        ),
        .systemLibrary(name: "CLinux"),
        .systemLibrary(
            name: "CTSS2",
            pkgConfig: "tss2-esys tss2-tctildr tss2-mu tss2-rc",
            providers: [.apt(["libtss2-dev"])]
        ),
        .systemLibrary(
            name: "CFIDO2",
            pkgConfig: "libfido2",
            providers: [.apt(["libfido2-dev"]), .brew(["libfido2"])]
        ),
        .systemLibrary(
            name: "CCurl",
            pkgConfig: "libcurl",
            providers: [.apt(["libcurl4-openssl-dev"]), .brew(["curl"])]
        ),
        .target(name: "LockboxPlatform", swiftSettings: settings),
        .target(name: "LockboxCore", dependencies: ["LockboxPlatform", "CLinux"], swiftSettings: settings),
        .target(
            name: "LockboxFiles",
            dependencies: ["LockboxCore", "LockboxPlatform", "CLinux"],
            swiftSettings: settings
        ),
        .target(
            name: "LockboxSodium",
            dependencies: ["LockboxCore", "LockboxPlatform", "Clibsodium", "CLinux"],
            swiftSettings: settings
        ),
        .target(
            name: "LockboxSealed",
            dependencies: ["LockboxCore", "LockboxFiles", "LockboxSodium", "LockboxPlatform", "CLinux"],
            swiftSettings: settings
        ),
        .target(
            name: "LockboxMigration",
            dependencies: ["LockboxCore", "LockboxFiles", "LockboxSodium", "LockboxPlatform", "CLinux"],
            swiftSettings: settings
        ),
        .target(
            name: "Lockbox",
            dependencies: ["LockboxCore", "LockboxSealed", "LockboxMigration", "LockboxPlatform"],
            swiftSettings: settings
        ),
        .target(
            name: "LockboxTPM",
            dependencies: [
                "LockboxCore", "LockboxSealed", "LockboxSodium", "LockboxPlatform",
                .target(name: "CTSS2", condition: .when(traits: ["TPM"])),
            ],
            swiftSettings: settings
        ),
        .target(
            name: "LockboxFIDO2",
            dependencies: [
                "LockboxCore", "LockboxSealed", "LockboxSodium", "LockboxPlatform",
                .target(name: "CFIDO2", condition: .when(traits: ["FIDO2"])),
            ],
            swiftSettings: settings
        ),
        .target(
            name: "LockboxUserDefaults",
            dependencies: ["LockboxCore", "LockboxMigration"],
            swiftSettings: settings
        ),
        .target(
            name: "LockboxTesting",
            dependencies: ["LockboxCore", "LockboxSealed", "LockboxKeychain", "LockboxPlatform"],
            swiftSettings: settings
        ),
        .target(
            name: "LockboxKeychain",
            dependencies: ["LockboxCore", "LockboxPlatform"],
            swiftSettings: settings
        ),
        .target(
            name: "LockboxKeychainMigration",
            dependencies: ["LockboxCore", "LockboxKeychain", "LockboxMigration", "LockboxPlatform"],
            swiftSettings: settings
        ),
        .target(
            name: "LockboxEtcd",
            dependencies: [
                "LockboxCore", "LockboxSealed", "LockboxSodium", "LockboxPlatform",
                .target(name: "CCurl", condition: .when(traits: ["Etcd"])),
            ],
            swiftSettings: settings
        ),
        .target(
            name: "LockboxIdentities",
            dependencies: [
                "LockboxCore", "LockboxPlatform",
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
            swiftSettings: settings
        ),
        .target(
            name: "LockboxConfiguration",
            dependencies: [
                "LockboxCore", "LockboxPlatform",
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
            swiftSettings: settings
        ),
        .testTarget(
            name: "LockboxEtcdTests",
            dependencies: ["Lockbox", "LockboxEtcd", "LockboxSealed", "LockboxTesting"],
            swiftSettings: settings
        ),
        .executableTarget(
            name: "LockboxTestProcess",
            dependencies: [
                "Lockbox", "LockboxUserDefaults", "Clibsodium",
                .target(name: "LockboxEtcd", condition: .when(traits: ["Etcd"])),
            ],
            path: "Tests/LockboxTestProcess",
            swiftSettings: settings
        ),
        .testTarget(
            name: "LockboxTests",
            dependencies: [
                "Lockbox", "LockboxTesting", "LockboxUserDefaults", "LockboxTestProcess", "LockboxKeychain",
                "LockboxKeychainMigration", "CLinux",
            ],
            resources: [.copy("Vectors")],
            swiftSettings: settings
        ),
        .testTarget(
            name: "LockboxTPMTests",
            dependencies: [
                "LockboxTPM", "LockboxSealed", "LockboxSodium",
                .target(name: "CTSS2", condition: .when(traits: ["TPM"])),
            ],
            swiftSettings: settings
        ),
        .systemLibrary(
            name: "CCrypto",
            path: "Tests/CCrypto",
            pkgConfig: "libcrypto",
            providers: [.apt(["libssl-dev"]), .brew(["openssl"])]
        ),
        .testTarget(
            name: "LockboxFIDO2Tests",
            dependencies: [
                "LockboxFIDO2", "LockboxSealed", "LockboxSodium",
                .target(name: "CFIDO2", condition: .when(traits: ["FIDO2"])),
                .target(name: "CCrypto", condition: .when(traits: ["FIDO2"])),
            ],
            swiftSettings: settings
        ),
    ],
    swiftLanguageModes: [.v6]
)
