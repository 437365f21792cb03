// swift-tools-version: 6.2
import PackageDescription

// Examples that need Swift packages. A package of its own, so that the other examples resolve nothing.
let settings: [SwiftSetting] = [.enableUpcomingFeature("NonisolatedNonsendingByDefault")]

let package = Package(
    name: "LockboxServerExamples",
    platforms: [.macOS(.v15)],
    products: [
        .executable(name: "Server", targets: ["Server"]),
        .executable(name: "Configured", targets: ["Configured"]),
    ],
    // For a store in a cluster; needs libcurl.
    traits: ["Etcd"],
    dependencies: [
        .package(
            name: "Lockbox",
            path: "../..",
            traits: ["Identities", "Configuration", .trait(name: "Etcd", condition: .when(traits: ["Etcd"]))]
        ),
        .package(url: "https://github.com/apple/swift-configuration", from: "1.4.0"),
        .package(url: "https://github.com/apple/swift-nio", from: "2.98.0"),
        .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.37.0"),
        .package(url: "https://github.com/apple/swift-nio-extras", from: "1.34.0"),
    ],
    targets: [
        .executableTarget(
            name: "Server",
            dependencies: [
                .product(name: "Lockbox", package: "Lockbox"),
                .product(name: "LockboxIdentities", package: "Lockbox"),
                .product(name: "LockboxEtcd", package: "Lockbox", condition: .when(traits: ["Etcd"])),
                .product(name: "NIOCertificateReloading", package: "swift-nio-extras"),
                .product(name: "NIOConcurrencyHelpers", package: "swift-nio"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "NIOSSL", package: "swift-nio-ssl"),
            ],
            swiftSettings: settings
        ),
        .executableTarget(
            name: "Configured",
            dependencies: [
                .product(name: "Lockbox", package: "Lockbox"),
                .product(name: "LockboxConfiguration", package: "Lockbox"),
                .product(name: "Configuration", package: "swift-configuration"),
            ],
            swiftSettings: settings
        ),
    ],
    swiftLanguageModes: [.v6]
)
