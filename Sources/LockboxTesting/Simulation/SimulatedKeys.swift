import Lockbox
import LockboxCore
import LockboxPlatform
import LockboxStore

/// Unlocks a store with what its owner knows, and changes what unlocks it.
struct SimulatedKeys: Sendable {
    struct Unexpected: Error, CustomStringConvertible {
        let description: String
    }

    let knowledge: SimulatedKnowledge
    let backend: SealedBackend

    // MARK: Unlocking

    /// Runs `body`, and again after an unlock if the store is locked.
    func unlocking<Value>(_ body: () throws -> Value) throws -> Value {
        for _ in 0..<3 {
            do { return try body() } catch let error as LockboxError
                where error.code == .interactionNotAllowed
            {
                try unlock()
            }
        }
        return try body()
    }

    /// Unlocks all classes.
    func unlock() throws {
        if try unlockWithPasscode() != nil { return }
        for number in try numbersOfSlots() {
            if case .key(_, opensAllClasses: false) = knowledge.slots[number] { continue }
            if try opens(number) { return }
        }
        // Another process may have changed them since the first of these was tried.
    }

    private func unlockWithPasscode() throws -> String? {
        for passcode in knowledge.passcodes.reversed() {
            do {
                _ = try backend.unlock(.value(passcode), scope: scope)
                return passcode
            } catch LockboxError.wrongPasscode { continue } catch LockboxError.passcodeNotSet { return nil }
        }
        return nil
    }

    /// For this process alone, or for all.
    private var scope: UnlockScope {
        knowledge.unlocksForAll && world.randomNumber.isMultiple(of: 4) ? .user : .process
    }

    private func numbersOfSlots() throws -> [Int] {
        try backend.status()?.slots.compactMap { Int($0.label) } ?? []
    }

    /// Whether a slot unlocks the store.
    private func opens(_ number: Int) throws -> Bool {
        do {
            _ = try backend.unlock(with: method(number), scope: scope)
            return true
        } catch let error as LockboxError where [.wrongPasscode, .slotNotFound].contains(error.code) {
            return false
        }
    }

    private func method(_ number: Int) -> SecretUnlock {
        switch knowledge.slots[number] {
        case .recoveryCode(let code): .recoveryCode(.value(code.text))
        case .key(let key, _): .key(.closure { key })
        }
    }

    // MARK: The passcode

    /// Returns the one before.
    func setPasscode(_ new: String?, isFirstAllowed: Bool) throws -> SimulatedHistory.Answer {
        if let new { knowledge.passcodes.append(new) }
        // Others may change it between two attempts.
        for _ in 0..<8 {
            do {
                let slots = try backend.status()?.slots ?? []
                if !slots.contains(where: { $0.kind == .passcode }) {
                    guard let new else { return .value(nil) }
                    // Of other slots, the last one may go meanwhile.
                    guard isFirstAllowed else { return .refused }
                    try unlocking { _ = try backend.setPasscode(.value(new), strength: .interactive) }
                    return .value(nil)
                }
                if let old = try changePasscode(to: new) { return .value(old) }
            } catch LockboxError.passcodeAlreadySet {
                continue
            } catch LockboxError.passcodeNotSet {
                continue
            }
        }
        throw Unexpected(description: "no passcode opens the store")
    }

    private func changePasscode(to new: String?) throws -> String? {
        for old in knowledge.passcodes.reversed() {
            do {
                try unlocking {
                    if let new {
                        _ = try backend.changePasscode(
                            from: .value(old),
                            to: .value(new),
                            strength: .interactive
                        )
                    } else {
                        _ = try backend.removePasscode(.value(old))
                    }
                }
                return old
            } catch LockboxError.wrongPasscode {
                continue
            }
        }
        return nil
    }

    // MARK: Slots

    func addSlot(_ number: Int, isFirstAllowed: Bool) throws -> SimulatedHistory.Answer {
        guard isFirstAllowed else { return .refused }
        switch knowledge.slots[number] {
        case .recoveryCode(let code):
            _ = try backend.addRecoveryCode(code, confirmation: .value(code.text), label: "\(number)")
        case .key(_, let opensAllClasses):
            _ = try backend.addSlot(
                method(number),
                label: "\(number)",
                opensAllClasses: opensAllClasses
            )
        }
        return .done
    }

    func removeSlot(_ number: Int, isLastAllowed: Bool) throws -> SimulatedHistory.Answer {
        let slots = try backend.status()?.slots ?? []
        guard let slot = slots.first(where: { $0.label == "\(number)" }) else { return .absent }
        guard isLastAllowed || slots.contains(where: { $0.kind == .passcode }) else { return .refused }
        do { _ = try backend.removeSlot(slot.id) } catch LockboxError.slotNotFound { return .absent }
        return .done
    }

    func unlock(withSlot number: Int) throws -> SimulatedHistory.Answer {
        try backend.lock()
        return try opens(number) ? .done : .absent
    }

    // MARK: At the end

    /// Returns the passcode, and the slots that open the store.
    func found() throws -> SimulatedHistory.State {
        let kinds = try backend.status()?.slots.map(\.kind) ?? []
        let passcode = try kinds.contains(.passcode) ? unlockWithPasscode() : nil
        if kinds.contains(.passcode), passcode == nil {
            throw Unexpected(description: "no passcode opens the store")
        }
        let slots = try knowledge.slots.indices.map { try opens($0) ? "slot\($0)" : nil }
        if slots.compactMap(\.self).count + (passcode == nil ? 0 : 1) != kinds.count {
            throw Unexpected(description: "\(kinds) have been added, and \(slots) open the store")
        }
        try unlock()
        return [passcode] + slots
    }
}
