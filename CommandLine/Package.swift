// swift-tools-version: 6.2
import PackageDescription

// A package of its own, so that who uses only the library never resolves swift-argument-parser.
let settings: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"), .enableUpcomingFeature("InternalImportsByDefault"),
]

// Short enough for one line below, which is the extension's.
let secretService: TargetDependencyCondition? = .when(traits: ["SecretService"])

let package = Package(
    name: "LockboxCommand",
    platforms: [.macOS(.v15)],
    products: [.executable(name: "lockbox", targets: ["LockboxCommand"])],
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
        ),
        // With its contents in the file dependencies, which Scripts/install-command compares.
        .package(url: "https://github.com/apple/swift-argument-parser", exact: "1.8.2"),
    ],
    targets: [
        .executableTarget(
            name: "LockboxCommand",
            dependencies: [
                "CProcess",
                .product(name: "Lockbox", package: "Lockbox"),
                .product(name: "LockboxImport", package: "Lockbox"),
                .product(name: "LockboxEtcd", package: "Lockbox", condition: .when(traits: ["Etcd"])),
                .product(name: "LockboxTPM", package: "Lockbox", condition: .when(traits: ["TPM"])),
                .product(name: "LockboxFIDO2", package: "Lockbox", condition: .when(traits: ["FIDO2"])),
                .product(name: "LockboxSecretService", package: "Lockbox", condition: secretService),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            swiftSettings: settings
        ),
        .systemLibrary(name: "CProcess"),
        .testTarget(
            name: "LockboxCommandTests",
            dependencies: ["LockboxCommand", .product(name: "Lockbox", package: "Lockbox")],
            swiftSettings: settings
        ),
    ],
    swiftLanguageModes: [.v6]
)
