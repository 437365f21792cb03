import LockboxCore
import LockboxPlatform
import LockboxSodium

/// The highest generation and epoch that the user's processes have seen of each keybag, in one key of the kernel's
/// keyring. An older keybag is then known to be one that somebody has put back.
///
/// An entry is authenticated with the key of the file names, which never changes: so a program that finds an old device
/// key with the old keybag can still read what was written under the new ones. The entry belongs to the store at its
/// place: a copy elsewhere has one of its own.
struct SeenGeneration: Sendable {
    let kernel: KernelKeyring
    /// The name of the kernel's key.
    var name = "lockbox:generations"

    struct Seen: Equatable {
        let generation: UInt64
        let epoch: UInt32

        /// Who has the device key can write the highest numbers there are. Nobody changes a store that often, and nothing
        /// could follow them, so they are not remembered.
        var isPlausible: Bool { generation < 1 << 48 && epoch < 1 << 31 }
    }

    /// The kernel gives each user little memory, so the stores that were changed longest ago are forgotten.
    static let maximumEntries = 64

    private static let nameLength = 16
    private static let macLength = 16
    private static let entryLength = nameLength + 16 + macLength

    /// Returns nil if nothing was seen, or if the kernel has no authentic record of it.
    func read(_ keyring: Keyring, at location: String) -> Seen? {
        let name = Self.entryName(keyring, location)
        return entries().lazy.filter { $0.starts(with: name) }.compactMap { Self.decode($0, keyring) }
            .max { $0.generation < $1.generation }
    }

    /// Remembers a keybag, unless a later one of its store is remembered. Does nothing if the kernel refuses.
    func write(_ seen: Seen, _ keyring: Keyring, at location: String) {
        let name = Self.entryName(keyring, location)
        func isKnown() -> Bool {
            read(keyring, at: location).map { $0.generation >= seen.generation } ?? false
        }
        guard !isKnown() else { return }
        kernel.withLock {
            guard !isKnown() else { return }
            let others = entries().filter { !$0.starts(with: name) }.suffix(Self.maximumEntries - 1)
            let all = others + [Self.encode(seen, name, keyring)]
            _ = kernel.add(self.name, Array(all.joined()), seconds: nil)
        }
    }

    private func entries() -> [[UInt8]] {
        guard let key = kernel.serial(of: name) else { return [] }
        let bytes = kernel.read(key, maximum: Self.maximumEntries * Self.entryLength) { Array($0) } ?? []
        return stride(from: 0, through: bytes.count - Self.entryLength, by: Self.entryLength).map {
            Array(bytes[$0..<($0 + Self.entryLength)])
        }
    }

    // MARK: An entry: name, generation, epoch, four zeros, MAC

    private static func entryName(_ keyring: Keyring, _ location: String) -> [UInt8] {
        Array(keyring.seenMAC(Array(location.utf8)).prefix(nameLength))
    }

    private static func encode(_ seen: Seen, _ name: [UInt8], _ keyring: Keyring) -> [UInt8] {
        let bytes =
            name + withUnsafeBytes(of: seen.generation.littleEndian, Array.init)
            + withUnsafeBytes(of: seen.epoch.littleEndian, Array.init) + [0, 0, 0, 0]
        return bytes + keyring.seenMAC(bytes).prefix(macLength)
    }

    private static func decode(_ entry: [UInt8], _ keyring: Keyring) -> Seen? {
        entry.withUnsafeBytes { bytes in
            var reader = ByteReader(bytes)
            guard reader.readBytes(nameLength) != nil, let generation = reader.read(UInt64.self),
                let epoch = reader.read(UInt32.self), reader.skipZeros(4)
            else { return nil }
            let seen = Seen(generation: generation, epoch: epoch)
            let mac = encode(seen, Array(entry.prefix(nameLength)), keyring)
            return mac.withUnsafeBytes { Sodium.isEqual($0, bytes) } ? seen : nil
        }
    }
}

extension SeenGeneration.Seen {
    init(_ keybag: Keybag) { self.init(generation: keybag.generation, epoch: keybag.epoch) }
}
