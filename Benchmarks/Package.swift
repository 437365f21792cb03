// swift-tools-version: 6.2
import PackageDescription

// A package of its own, so that who uses Lockbox never fetches or builds it.
let package = Package(
    name: "LockboxBenchmarks",
    platforms: [.macOS(.v15)],
    dependencies: [.package(name: "Lockbox", path: "..")],
    targets: [
        .systemLibrary(name: "CSodium", pkgConfig: "libsodium"),
        .target(name: "CFloor", dependencies: ["CSodium"], cSettings: [.define("_GNU_SOURCE")]),
        .executableTarget(
            name: "LockboxBenchmarks",
            dependencies: ["CFloor", .product(name: "Lockbox", package: "Lockbox")]
        ),
    ],
    swiftLanguageModes: [.v6]
)
