// swift-tools-version: 6.2
import PackageDescription

// In an app of your own the dependency is
//     .package(url: "https://example.com/lockbox.git", from: "0.1.0")
let package = Package(
    name: "LockboxExamples",
    platforms: [.macOS(.v15)],
    dependencies: [.package(name: "Lockbox", path: "..")],
    targets: [
        .executableTarget(name: "RememberMe", dependencies: [.product(name: "Lockbox", package: "Lockbox")])
    ],
    swiftLanguageModes: [.v6]
)
