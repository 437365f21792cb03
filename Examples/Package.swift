// swift-tools-version: 6.2
import PackageDescription

// In an app of your own the dependency is
//     .package(url: "../lockbox", branch: "main")
let lockbox = Target.Dependency.product(name: "Lockbox", package: "Lockbox")
let testing = Target.Dependency.product(name: "LockboxTesting", package: "Lockbox")
let keychain = Target.Dependency.product(name: "LockboxKeychain", package: "Lockbox")
let simulator = Target.Dependency.product(name: "LockboxKeychainTesting", package: "Lockbox")
let identities = Target.Dependency.product(name: "LockboxIdentities", package: "Lockbox")

let cluster = Target.Dependency.product(
    name: "LockboxEtcd",
    package: "Lockbox",
    condition: .when(traits: ["Etcd"])
)

let package = Package(
    name: "LockboxExamples",
    platforms: [.macOS(.v15)],
    traits: ["TPM", "FIDO2", "Etcd", "SecretService"],
    dependencies: [
        .package(
            name: "Lockbox",
            path: "..",
            traits: [
                .trait(name: "TPM", condition: .when(traits: ["TPM"])),
                .trait(name: "FIDO2", condition: .when(traits: ["FIDO2"])),
                .trait(name: "Etcd", condition: .when(traits: ["Etcd"])),
                .trait(name: "SecretService", condition: .when(traits: ["SecretService"])),
            ]
        )
    ],
    targets: [
        .executableTarget(name: "RememberMe", dependencies: [lockbox, "Terminal"]),
        .executableTarget(name: "DeviceIdentifier", dependencies: [lockbox]),
        .executableTarget(name: "AccountManager", dependencies: [lockbox, "Terminal"]),
        .executableTarget(
            name: "ItemClasses",
            dependencies: [lockbox, identities, keychain, simulator, "Terminal"]
        ),
        .executableTarget(name: "Settings", dependencies: [lockbox, "Terminal"]),
        .executableTarget(name: "Counter", dependencies: [lockbox]),
        .executableTarget(name: "SharedToken", dependencies: [lockbox]),
        .executableTarget(name: "SharedSession", dependencies: [lockbox, cluster, "TinyHTTP"]),
        .executableTarget(name: "ClusterDemo", dependencies: [cluster, "TinyHTTP"]),
        .executableTarget(name: "SharedGroup", dependencies: [lockbox, "Terminal"]),
        .executableTarget(name: "MigrateFromV2", dependencies: [lockbox]),
        .executableTarget(name: "Service", dependencies: [lockbox], exclude: ["lockbox-example.service"]),
        .target(name: "SwapBackendInTests", dependencies: [lockbox]),
        .testTarget(name: "SwapBackendInTestsTests", dependencies: ["SwapBackendInTests", testing]),
        .target(name: "JSONFileBackend", dependencies: [lockbox]),
        .testTarget(name: "JSONFileBackendTests", dependencies: ["JSONFileBackend", lockbox, testing]),
        .target(name: "Terminal"),
        .target(name: "TinyHTTP"),
    ],
    swiftLanguageModes: [.v6]
)
