import Foundation

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// For Proofs/Attacks/run, which plays an attacker beside the store's owner: each line of standard input is a call in
/// JSON, each line of standard output its result. Secrets come this way so that no other process can see them.
func attacks() throws {
    var sessions: [String: EncryptedFileBackend] = [:]
    while let line = readLine() {
        let call = try JSONDecoder().decode(AttackedCall.self, from: Data(line.utf8))
        var result = AttackedCall.Result()
        do {
            // A session is a program that goes on running. Without one, the call is made by a program that has just started.
            let backend = call.session.flatMap { sessions[$0] } ?? call.backend()
            if let session = call.session { sessions[session] = backend }
            try call.run(backend, &result)
        } catch let error as LockboxError {
            result.error = error.code.rawValue
        } catch {
            result.error = "not a LockboxError: \(type(of: error))"
        }
        print(String(decoding: try JSONEncoder().encode(result), as: UTF8.self))
        fflush(nil)
    }
}

struct AttackedCall: Decodable {
    struct Result: Encodable {
        var error: String?
        var value: String?
        var names: [String]?
        /// For a rotation: the items that it could not reseal.
        var notRevoked: Int?
    }

    struct Secret: Decodable {
        var kind: String
        var secret: String

        var method: any UnlockMethod {
            switch kind {
            case "passcode": .passcode(.value(secret), strength: .interactive)
            case "code": .recoveryCode(.value(secret))
            case "file": .key(.file(secret))
            default: .key(.closure { Array(secret.utf8) })
            }
        }
    }

    var call: String
    var session: String?
    var directory: String
    /// A file, if the device key is not in the store.
    var deviceKey: String?
    var newDeviceKey: String?
    var unlock: Secret?
    var protection: String?
    var minimumClass: String?
    var identity: String?
    var withoutKernel: Bool?
    /// The file of what the user remembers.
    var memory: String?
    var secret: Secret?
    var key: String?
    var value: String?
    var accessibility: String?
    var server: String?
    var existing: String?
    var opensAll: Bool?
    var resealing: Bool?

    func backend() -> EncryptedFileBackend {
        var kernel = KernelKeyring()
        if withoutKernel == true { kernel.fault = { ENOSYS } }
        return EncryptedFileBackend(
            KeyStore(
                storage: FileStorage(directory: directory),
                deviceKey: deviceKey.map { .file($0) } ?? .stored,
                requires: StoreRequirements(
                    protection: protection.flatMap(StoreRequirements.Protection.init(rawValue:)) ?? .none,
                    minimumAccessibility: minimumClass.flatMap(Accessibility.init(rawValue:)),
                    identity: identity
                ),
                kernel: kernel,
                memory: memory.map { StoreMemory($0, of: directory) }
            )
        )
    }

    func run(_ backend: EncryptedFileBackend, _ result: inout Result) throws {
        if let unlock { try backend.unlock(with: unlock.method) }
        switch call {
        case "unlock": break
        case "unlockForUser": result.value = "\(try backend.unlock(with: secret!.method, scope: .user))"
        case "lock": try backend.lock(includingAfterFirstUnlock: true)
        case "write": try write(backend)
        case "read":
            result.value = try backend.value(for: itemKey, now: nil).map {
                String(decoding: $0.data, as: UTF8.self)
            }
        case "find":
            let found = try Lockbox(keyPrefix: prefix, backend: backend).unarchiveItems(
                Data.self,
                matching: ["server": server!],
                unreadable: { _ in }
            )
            result.value = found.values.first.map { String(decoding: $0.value, as: UTF8.self) }
        case "list": result.names = try backend.attributes(prefix: prefix, now: nil).keys.map(\.key).sorted()
        case "identity": result.value = try backend.status()?.identity
        case "class":
            result.value = try backend.item(for: itemKey, now: nil)?.attributes.accessibility.rawValue
        case "backupKey":
            let key = BackupKey()
            (result.value, result.names) = (key.privateKey, [key.publicKey])
        case "export": try backend.exportBackup(to: key!, for: .publicKeys([value!]))
        case "import":
            let isReplacing = existing == "replace"
            try backend.importBackup(
                from: key!,
                with: .privateKeys(.value(value!)),
                existing: isReplacing ? .replace : .keep
            )
        case "slots": result.names = try backend.slots.map { "\($0.kind)" }
        default: result.notRevoked = try change(backend, &result).unrevokedCount
        }
    }

    private var itemKey: ItemKey {
        get throws { try ItemKey(prefix: prefix, key: key!) }
    }

    private func write(_ backend: EncryptedFileBackend) throws {
        let changes = try ItemChanges(
            value: ArchivedValue(data: Data(value!.utf8), format: .data),
            options: WriteOptions(
                accessibility: accessibility.flatMap(Accessibility.init(rawValue:)),
                attributes: server.map { .set(["server": $0]) } ?? .unchanged
            ),
            modified: Date()
        )
        try backend.write(changes, to: itemKey)
    }

    private func change(_ backend: EncryptedFileBackend, _ result: inout Result) throws -> RotationReport {
        let resealing = resealing ?? true
        switch call {
        case "setPasscode":
            return try backend.setPasscode(
                .value(secret!.secret),
                strength: .interactive,
                resealing: resealing
            )
        case "changePasscode":
            return try backend.changePasscode(
                to: .value(secret!.secret),
                strength: .interactive,
                resealing: resealing
            )
        case "removePasscode": return try backend.removePasscode(resealing: resealing)
        case "addRecoveryCode":
            let code = RecoveryCode()
            result.value = code.text
            return try backend.addRecoveryCode(code, confirmation: .value(code.text), resealing: resealing)
        case "addKey":
            let all = opensAll ?? false
            return try backend.addSlot(
                secret!.method,
                label: "a key",
                opensAllClasses: all,
                resealing: resealing
            )
        case "removeSlot":
            let slot = try backend.slots.last { "\($0.kind)" == value! }!
            return try backend.removeSlot(slot.id, resealing: resealing)
        case "acceptRestored": return try backend.acceptRestored(secret?.method)
        case "rotateKeys": return try backend.rotateKeys(newDeviceKey: newDeviceKey.map { .file($0) })
        default: exit(64)
        }
    }
}
