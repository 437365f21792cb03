import LockboxIdentities
import Foundation
import Testing

import Lockbox

/// A folder for one test, in which the program `openssl` runs.
final class OpenSSL {
    let folder = FileManager.default.temporaryDirectory.appending(path: "lockbox-openssl-\(UUID())")

    init() throws { try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true) }

    deinit { try? FileManager.default.removeItem(at: folder) }

    struct Failure: Error { let text: String }

    /// - Returns: Its output, without spaces around.
    @discardableResult
    func callAsFunction(_ arguments: String...) throws -> String { try run(arguments) }

    @discardableResult
    private func run(_ arguments: [String]) throws -> String {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = ["openssl"] + arguments
        process.currentDirectoryURL = folder
        let (output, errors) = (Pipe(), Pipe())
        process.standardOutput = output
        process.standardError = errors
        process.standardInput = FileHandle.nullDevice
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        let said = String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw Failure(text: said) }
        return text.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    func text(_ name: String) throws -> String {
        try String(contentsOf: folder.appending(path: name), encoding: .utf8)
    }

    func data(_ name: String) throws -> Data { try Data(contentsOf: folder.appending(path: name)) }

    func write(_ text: String, _ name: String) throws { try write(Data(text.utf8), name) }

    func write(_ data: Data, _ name: String) throws { try data.write(to: folder.appending(path: name)) }

    /// A new private key, in the file `name`, as PKCS#8 in PEM.
    func makeKey(_ kind: Kind, _ name: String = "key.pem") throws {
        var arguments = ["genpkey", "-out", name, "-algorithm", kind.algorithmName]
        if let option = kind.option { arguments += ["-pkeyopt", option] }
        try run(arguments)
    }
}

/// The kinds of keys.
enum Kind: String, CaseIterable, Sendable {
    case p256 = "P-256"
    case p384 = "P-384"
    case p521 = "P-521"
    case ed25519
    case x25519
    case rsa

    static let signing = allCases.filter { $0 != .x25519 }

    var algorithmName: String {
        switch self {
        case .p256, .p384, .p521: "EC"
        case .ed25519: "ED25519"
        case .x25519: "X25519"
        case .rsa: "RSA"
        }
    }

    var option: String? {
        switch self {
        case .p256, .p384, .p521: "ec_paramgen_curve:\(rawValue)"
        case .ed25519, .x25519: nil
        case .rsa: "rsa_keygen_bits:2048"
        }
    }

    var algorithm: PrivateKeyItem.Algorithm {
        switch self {
        case .p256, .p384, .p521: .ellipticCurve
        case .ed25519: .ed25519
        case .x25519: .x25519
        case .rsa: .rsa
        }
    }

    var bitCount: Int {
        switch self {
        case .p256, .ed25519, .x25519: 256
        case .p384: 384
        case .p521: 521
        case .rsa: 2048
        }
    }
}
