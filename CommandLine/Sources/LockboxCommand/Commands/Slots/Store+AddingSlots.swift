import ArgumentParser
import Lockbox

extension Store {
    /// - Parameter name: What unlocks the store from then on, for the report.
    func add(_ method: any UnlockMethod, _ name: String, _ slot: NewSlotOptions) throws {
        try makingKeys("slots", later: slot.resealing.later) {
            try backend.addSlot(
                method,
                label: slot.label,
                opensAllClasses: slot.allClasses,
                resealing: !slot.resealing.later,
                progress: $0
            )
        }
        try report("The \(name) unlocks \(slot.allClasses ? "all classes" : "the afterFirstUnlock classes").")
    }
}
