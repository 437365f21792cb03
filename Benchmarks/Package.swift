// swift-tools-version: 6.2
import PackageDescription

// A package of its own, so that who uses Lockbox never fetches or builds it.
let package = Package(
    name: "LockboxBenchmarks",
    platforms: [.macOS(.v15)],
    // For the cluster: needs libcurl, and etcd to run.
    traits: ["Etcd"],
    dependencies: [
        .package(
            name: "Lockbox",
            path: "..",
            traits: [.trait(name: "Etcd", condition: .when(traits: ["Etcd"]))]
        )
    ],
    targets: [
        .systemLibrary(name: "CSodium", pkgConfig: "libsodium"),
        .target(name: "CFloor", dependencies: ["CSodium"], cSettings: [.define("_GNU_SOURCE")]),
        .target(
            name: "CEtcd",
            cSettings: [.define("ETCD", .when(traits: ["Etcd"]))],
            linkerSettings: [.linkedLibrary("curl", .when(traits: ["Etcd"]))]
        ),
        .executableTarget(
            name: "LockboxBenchmarks",
            dependencies: [
                "CFloor", "CEtcd", .product(name: "Lockbox", package: "Lockbox"),
                .product(name: "LockboxTesting", package: "Lockbox"),
                .product(name: "LockboxEtcd", package: "Lockbox", condition: .when(traits: ["Etcd"])),
            ]
        ),
    ],
    swiftLanguageModes: [.v6]
)
