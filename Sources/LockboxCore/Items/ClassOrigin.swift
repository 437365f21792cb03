/// Who chose the class of a stored item. No part of the item: two items do not differ by it.
///
/// Whoever has only the device key can replace an item by one of a lower class. So a write that keeps the class of what is
/// there needs proof that somebody chose it who could unlock the store.
package struct ClassOrigin: Hashable, Sendable {
    package enum Proof: Sendable {
        /// Somebody who could unlock the store chose it.
        case unlocked
        /// The store has no slot, so the device key opens everything. No proof for a store with slots.
        case unprotected
        /// There is no proof.
        case missing
        /// The store is locked, so no proof can be checked.
        case locked
    }

    package let proof: Proof

    package init(_ proof: Proof) { self.proof = proof }

    package static func == (a: Self, b: Self) -> Bool { true }

    package func hash(into hasher: inout Hasher) {}
}
