import Lockbox

/// A slot as it is printed. Documented: fields may be added, but never removed.
struct SlotDescription: Encodable {
    let id: String
    let kind: String
    let label: String
    let created: Date
    let opens: String

    init(_ slot: UnlockSlot) {
        id = slot.id
        kind = slot.kind.description
        label = slot.label
        created = slot.created
        opens = slot.opensAllClasses ? "all" : "afterFirstUnlock"
    }

    static func print(_ slots: [SlotDescription]) throws {
        var table = Table(header: ["SLOT", "KIND", "CREATED", "OPENS", "LABEL"])
        // As much of an ID as tells slots apart. JSON has all of it.
        table.rows = slots.map {
            [
                String($0.id.prefix(12)), $0.kind, $0.created.local, $0.opens,
                $0.label.isEmpty ? "-" : $0.label,
            ]
        }
        try table.print()
    }
}
