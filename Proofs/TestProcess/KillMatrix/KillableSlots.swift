import Foundation

import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// Changes of the slots, and of a device key that moves out of the store.
let killableSlots: [KillableOperation] = [
    KillableOperation(
        "addRecoveryCode",
        prepare: { try $0.prepare(rotatable()) },
        mode: { _ in ["addRecoveryCode", "old"] },
        inspect: { try inspectSlots($0, added: true) }
    ),
    KillableOperation(
        "removeSlot",
        prepare: { folder in
            try folder.prepare(rotatable())
            let backend = folder.backend()
            try backend.unlock(.value("old"))
            try backend.addRecoveryCode(killableCode, confirmation: .value(killableCode.text))
        },
        mode: { _ in ["removeSlot", "old"] },
        inspect: { try inspectSlots($0, added: false) }
    ),
    KillableOperation(
        "acceptRestored",
        prepare: { try $0.prepare(rotatable()) },
        mode: { _ in ["acceptRestored", "old"] },
        inspect: inspectRotation
    ),
    KillableOperation(
        "rotateKeys, new device key elsewhere",
        prepare: { try $0.prepare(rotatable()) },
        mode: { _ in ["rotateElsewhere", "old"] },
        inspect: inspectDeviceKey
    ),
]

/// A code like any other: all of its characters are 0.
// swift-format-ignore: NeverUseForceTry
let killableCode = try! RecoveryCode(String(repeating: "0", count: 28))

/// One operation moves the device key out of the store.
let killableSource = DeviceKeySource.anyOf([.stored, .closure { killableDeviceKey }])

/// Not a secret.
private let killableDeviceKey = [UInt8](repeating: 42, count: 32)

func runOnSlots(_ operation: String, _ passcode: String, _ backend: EncryptedFileBackend) throws {
    if operation == "acceptRestored" {
        try backend.acceptRestored(.passcode(.value(passcode)))
        return
    }
    try backend.unlock(.value(passcode))
    switch operation {
    case "addRecoveryCode": try backend.addRecoveryCode(killableCode, confirmation: .value(killableCode.text))
    case "removeSlot":
        if let slot = try backend.slots.first(where: { $0.kind == .recoveryCode }) {
            try backend.removeSlot(slot.id)
        } else {
            // It is gone, but items may not be resealed yet.
            try backend.rotateKeys()
        }
    default: try backend.rotateKeys(newDeviceKey: .closure { killableDeviceKey })
    }
}

/// The passcode opens everything whatever happened; the code opens everything as soon as there is its slot.
@Sendable private func inspectSlots(_ folder: Folder, added: Bool) throws -> KillableOperation.State {
    let backend = try folder.open(["old"]).backend
    try backend.requireExactly(rotatable())
    // Run again, the operation adds the code again.
    let hasCode = try backend.slots.contains { $0.kind == .recoveryCode }
    let other = folder.backend()
    if hasCode {
        try other.unlock(with: .recoveryCode(.value(killableCode.text)))
        try other.requireExactly(rotatable())
    } else {
        do {
            try other.unlock(with: .recoveryCode(.value(killableCode.text)))
            throw Violation(description: "the code opens the store without a slot")
        } catch LockboxError.slotNotFound {}
    }
    if hasCode != added { return .old }
    return try folder.keybag().isRotating ? .between : .new
}

/// One of the two device keys opens the store, and a program that has both always does.
@Sendable private func inspectDeviceKey(_ folder: Folder) throws -> KillableOperation.State {
    let both = folder.backend(deviceKey: .anyOf([.closure { killableDeviceKey }, .stored]))
    try both.unlock(.value("old"))
    try both.requireExactly(rotatable())
    let new = folder.backend(deviceKey: .closure { killableDeviceKey })
    do { try new.unlock(.value("old")) } catch LockboxError.deviceKeyMismatch {
        try folder.backend().unlock(.value("old"))
        return .old
    }
    return try both.keyStore.current().keybag.isRotating ? .between : .new
}
