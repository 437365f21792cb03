import Foundation

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// Stores and uses items whose texts are on the standard input: on each line prefix, key, value, label, comment, and name
/// and text of an attribute, with spaces in between. Proofs/Cluster/run then searches for them.
func storeSecrets(_ engine: HistoryEngine) throws {
    while let line = readLine() {
        let texts = line.split(separator: " ").map(String.init)
        try require(texts.count == 7, "a line has \(texts.count) texts")
        let lockbox = try Lockbox(keyPrefix: texts[0], backend: engine.items)
        try lockbox.archiveObject(
            texts[2],
            forKey: texts[1],
            options: WriteOptions(
                label: .set(texts[3]),
                comment: .set(texts[4]),
                attributes: .set([texts[5]: texts[6]])
            )
        )
        try use(texts[1], texts[2], [texts[5]: texts[6]], in: lockbox)
    }
    try engine.rotate {}
    print("stored")
}

/// Reads, lists, changes and moves an item, and leaves it as it was.
private func use(_ key: String, _ value: String, _ attributes: [String: String], in lockbox: Lockbox) throws {
    let found = try lockbox.unarchiveObject(String.self, forKey: key)
    try require(found == value, "an item has another value")
    try require(
        lockbox.list(matching: attributes).items.count == 1,
        "an item cannot be found by its attribute"
    )
    try lockbox.update(key, as: String.self) { $0 = ($0 ?? "") + value }
    try lockbox.copyObject(forKey: key, toKey: "\(key)-copy")
    try lockbox.removeObject(forKey: "\(key)-copy")
    try lockbox.archiveObject(value, forKey: key, options: WriteOptions(policy: .updateOnly))
}
