// swift-tools-version: 6.2
import PackageDescription

// The tests of the traits whose libraries are Swift packages. A package of its own, so that all others resolve nothing.
let settings: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
]

let package = Package(
    name: "LockboxTraitTests",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(name: "Lockbox", path: "../..", traits: ["Identities", "Configuration"]),
        .package(url: "https://github.com/apple/swift-crypto", from: "4.5.2"),
        .package(url: "https://github.com/apple/swift-certificates", from: "1.21.1"),
        .package(url: "https://github.com/apple/swift-configuration", from: "1.4.0", traits: []),
    ],
    targets: [
        .testTarget(
            name: "IdentitiesTests",
            dependencies: [
                .product(name: "Lockbox", package: "Lockbox"),
                .product(name: "LockboxIdentities", package: "Lockbox"),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
                .product(name: "X509", package: "swift-certificates"),
            ],
            path: "IdentitiesTests",
            swiftSettings: settings
        ),
        .testTarget(
            name: "ConfigurationTests",
            dependencies: [
                .product(name: "Lockbox", package: "Lockbox"),
                .product(name: "LockboxConfiguration", package: "Lockbox"),
                .product(name: "LockboxKeychain", package: "Lockbox"),
                .product(name: "LockboxTesting", package: "Lockbox"),
                .product(name: "Configuration", package: "swift-configuration"),
                .product(name: "ConfigurationTesting", package: "swift-configuration"),
            ],
            path: "ConfigurationTests",
            swiftSettings: settings
        ),
    ],
    swiftLanguageModes: [.v6]
)
