// swift-tools-version: 6.2
import PackageDescription

let settings: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
]

let package = Package(
    name: "Lockbox",
    // `String(validating:as:)` sets these minimums; Linux has none.
    platforms: [.macOS(.v15), .iOS(.v18), .tvOS(.v18), .watchOS(.v11), .visionOS(.v2)],
    products: [
        .library(name: "Lockbox", targets: ["Lockbox"]),
        .library(name: "LockboxTesting", targets: ["LockboxTesting"]),
    ],
    targets: [
        .systemLibrary(
            name: "Clibsodium",
            pkgConfig: "libsodium",
            providers: [.apt(["libsodium-dev"]), .brew(["libsodium"])]
        ),
        .systemLibrary(name: "CLinux"),
        .target(name: "Lockbox", dependencies: ["Clibsodium", "CLinux"], swiftSettings: settings),
        .target(name: "LockboxTesting", dependencies: ["Lockbox"], swiftSettings: settings),
        .executableTarget(
            name: "LockboxTestProcess",
            dependencies: ["Lockbox"],
            path: "Tests/LockboxTestProcess",
            swiftSettings: settings
        ),
        .testTarget(
            name: "LockboxTests",
            dependencies: ["Lockbox", "LockboxTesting", "LockboxTestProcess", "Clibsodium"],
            resources: [.copy("Vectors")],
            swiftSettings: settings
        ),
    ],
    swiftLanguageModes: [.v6]
)
