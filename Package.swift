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
    ],
    targets: [
        .systemLibrary(
            name: "Clibsodium",
            pkgConfig: "libsodium",
            providers: [.apt(["libsodium-dev"]), .brew(["libsodium"])]
        ),
        .systemLibrary(name: "CLinux"),
        .target(name: "LockboxPlatform", swiftSettings: settings),
        .target(name: "LockboxCore", dependencies: ["LockboxPlatform", "CLinux"], swiftSettings: settings),
        .target(name: "LockboxFiles", dependencies: ["LockboxCore", "CLinux"], swiftSettings: settings),
        .target(name: "LockboxSodium", dependencies: ["LockboxCore", "Clibsodium"], swiftSettings: settings),
        .target(
            name: "LockboxSealed",
            dependencies: ["LockboxCore", "LockboxFiles", "LockboxSodium", "CLinux"],
            swiftSettings: settings
        ),
        .target(
            name: "LockboxMigration",
            dependencies: ["LockboxCore", "LockboxFiles", "LockboxSodium"],
            swiftSettings: settings
        ),
        .target(
            name: "Lockbox",
            dependencies: ["LockboxCore", "LockboxSealed", "LockboxMigration"],
            swiftSettings: settings
        ),
        .target(name: "LockboxUserDefaults", dependencies: ["LockboxMigration"], swiftSettings: settings),
        .target(
            name: "LockboxTesting",
            dependencies: ["LockboxCore", "LockboxSealed"],
            swiftSettings: settings
        ),
        .executableTarget(
            name: "LockboxTestProcess",
            dependencies: ["Lockbox", "LockboxUserDefaults"],
            path: "Tests/LockboxTestProcess",
            swiftSettings: settings
        ),
        .testTarget(
            name: "LockboxTests",
            dependencies: [
                "Lockbox", "LockboxTesting", "LockboxUserDefaults", "LockboxTestProcess", "Clibsodium", "CLinux",
            ],
            resources: [.copy("Vectors")],
            swiftSettings: settings
        ),
    ],
    swiftLanguageModes: [.v6]
)
