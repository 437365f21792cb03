import LockboxCore
import LockboxPlatform
import LockboxSodium

/// The highest generation and epoch that the user's processes have seen of each keybag, in one key of the kernel's
/// keyring. An older keybag is then known to be one that somebody has put back.
///
/// An entry is authenticated with the key of the file names, which never changes: so a program that finds an old device
/// key with the old keybag can still read what was written under the new ones. The entry belongs to the store, by its ID,
/// wherever it is: a path has many spellings, and a copy can be put in the place of any.
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
    func read(_ keyring: Keyring) -> Seen? {
        let name = Self.entryName(keyring)
        return entries(of: name).own.compactMap { Self.decode($0, keyring) }
            .max { $0.generation < $1.generation }
    }

    /// Remembers a keybag, unless a later one of its store is remembered. Does nothing if the kernel refuses.
    func write(_ seen: Seen, _ keyring: Keyring) {
        let name = Self.entryName(keyring)
        func isKnown() -> Bool { read(keyring).map { $0.generation >= seen.generation } ?? false }
        guard !isKnown() else { return }
        kernel.withLock {
            guard !isKnown() else { return }
            var all = entries(of: name).others.suffix((Self.maximumEntries - 1) * Self.entryLength)
            all += Self.encode(seen, name, keyring)
            _ = kernel.add(self.name, Array(all), seconds: nil)
        }
    }

    /// Returns the entries of a store, and those of all others in one array.
    private func entries(of name: [UInt8]) -> (own: [[UInt8]], others: [UInt8]) {
        guard let key = kernel.serial(of: self.name) else { return ([], []) }
        return kernel.read(key, maximum: Self.maximumEntries * Self.entryLength) { bytes in
            var (own, others) = ([[UInt8]](), [UInt8]())
            var reader = ByteReader(UnsafeRawBufferPointer(bytes))
            while let entry = reader.readBytes(Self.entryLength), let start = entry.baseAddress {
                let isOwn = memcmp(start, name, Self.nameLength) == 0
                if isOwn { own.append(Array(entry)) } else { others += entry }
            }
            return (own, others)
        } ?? ([], [])
    }

    // MARK: An entry: name, generation, epoch, four zeros, MAC

    private static func entryName(_ keyring: Keyring) -> [UInt8] {
        Array(keyring.seenMAC(withUnsafeBytes(of: keyring.storeID, Array.init)).prefix(nameLength))
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
