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
    // Where libcurl and etcd are: the server is then also tested on a cluster.
    traits: ["Etcd"],
    dependencies: [
        .package(
            name: "Lockbox",
            path: "../..",
            traits: ["Identities", "Configuration", .trait(name: "Etcd", condition: .when(traits: ["Etcd"]))]
        ),
        .package(
            path: "../../Examples/Server",
            traits: [.trait(name: "Etcd", condition: .when(traits: ["Etcd"]))]
        ),
        .package(url: "https://github.com/apple/swift-crypto", from: "4.5.2"),
        .package(url: "https://github.com/apple/swift-certificates", from: "1.21.1"),
        .package(url: "https://github.com/apple/swift-asn1", from: "1.7.4"),
        .package(url: "https://github.com/apple/swift-configuration", from: "1.4.0", traits: []),
        .package(url: "https://github.com/apple/swift-log", from: "1.6.0"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.98.0"),
        .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.37.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.0.0"),
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.0.0"),
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
                .product(name: "LockboxKeychainTesting", package: "Lockbox"),
                .product(name: "LockboxTesting", package: "Lockbox"),
                .product(name: "Configuration", package: "swift-configuration"),
                .product(name: "ConfigurationTesting", package: "swift-configuration"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ],
            path: "ConfigurationTests",
            swiftSettings: settings
        ),
        .testTarget(
            name: "ServerTests",
            dependencies: [
                .product(name: "Server", package: "Server"),
                .product(name: "Configured", package: "Server"),
                .product(name: "Lockbox", package: "Lockbox"),
                .product(name: "LockboxIdentities", package: "Lockbox"),
                .product(name: "LockboxEtcd", package: "Lockbox", condition: .when(traits: ["Etcd"])),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "X509", package: "swift-certificates"),
                .product(name: "SwiftASN1", package: "swift-asn1"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOTLS", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
            ],
            path: "ServerTests",
            swiftSettings: settings
        ),
        .testTarget(
            name: "NamesTests",
            dependencies: [
                .product(name: "Lockbox", package: "Lockbox"),
                .product(name: "Configuration", package: "swift-configuration"),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "Logging", package: "swift-log"),
            ],
            path: "NamesTests",
            swiftSettings: settings
        ),
    ],
    swiftLanguageModes: [.v6]
)
