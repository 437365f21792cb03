import Foundation
import Testing

@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

/// What a process can know of a store, each keybag that its owner or an attacker can put there, and which of them it takes.
@Suite struct KnowledgeTests {
    private let owner: OwnersKeybags

    init() throws { owner = try OwnersKeybags() }

    // MARK: Judging

    /// Each but the first knows the present keybag.
    enum Known: CaseIterable {
        case nothing, numbers, service, kernel, counter
        /// The user's file has a store without slots.
        case numbersInFile
        // These know the owner's key.
        case unlocked, followed, written, file

        static let owners: Set = [unlocked, followed, written, file]
        static let withSlots = owners.union([service, kernel])
        static let withNumbers = Set(allCases).subtracting([nothing])
    }

    enum Given: CaseIterable {
        // By the owner
        case present, next, after32Changes, after33Changes, withoutSlots, withANewFirstSlot
        // From a copy
        case former, presentWithRetiredKeys, formerOfAHigherGeneration
        // With the device key alone
        case unsigned, forged, forgedWithoutSlots, forgedOfTheHighestNumbers, forgedWithTheOwnersRoot
        // With a copy and a secret of that time
        case successorOfTheFormer, successorOfThePresent
    }

    /// - Returns: Who refuses a keybag as an older one, who as a forged one, and whether it has the identity that a program can require.
    private static func refusing(_ given: Given) -> (
        rolledBack: Set<Known>, forged: Set<Known>, hasIdentity: Bool
    ) {
        switch given {
        case .present, .next, .after32Changes: ([], [], true)
        // A memory that slept too long.
        case .after33Changes: ([], Known.owners, true)
        // Removing all slots takes a secret that opens them, which is seen by the owner's key only.
        case .withoutSlots: ([], [.service, .kernel], true)
        case .withANewFirstSlot: ([], Known.owners, false)
        case .former, .presentWithRetiredKeys: (Known.withNumbers, [], true)
        // A counter knows no epoch.
        case .formerOfAHigherGeneration: (Known.withNumbers.subtracting([.counter]), [], true)
        case .unsigned, .forged, .forgedOfTheHighestNumbers, .forgedWithTheOwnersRoot:
            ([], Known.owners, false)
        case .forgedWithoutSlots: ([], Known.withSlots, false)
        case .successorOfTheFormer: ([], Known.owners, true)
        // The limit: it is what the owner could have made.
        case .successorOfThePresent: ([], [], true)
        }
    }

    @Test(arguments: Given.allCases) func aKeybagIsTakenOrRefused(_ given: Given) throws {
        let (keybag, expected) = (try owner.keybag(given), Self.refusing(given))
        for known in Known.allCases {
            let (process, outside) = try knowledge(known)
            let reason =
                expected.rolledBack.contains(known)
                ? "rolled back" : expected.forged.contains(known) ? "forged" : nil
            #expect(refusal(of: keybag, process, outside) == reason, "\(known)")
        }
        #expect(keybag.has(identity: owner.present.owner.identity) == expected.hasIdentity)
    }

    private func knowledge(_ known: Known) throws -> (Knowledge, Knowledge.Outside) {
        var (process, outside) = (Knowledge(), Knowledge.Outside())
        let keybag = try owner.keybag(.present)
        let numbers = KeybagNumbers(keybag)
        switch known {
        case .nothing: break
        case .numbers: process.learn(numbers)
        case .service, .kernel:
            process.learn(numbers)
            process.learn(unlocking: keybag, owner.present, known == .service ? .service : .kernel)
        case .counter: outside.counted = numbers.generation
        case .numbersInFile: outside.numbers = numbers
        case .unlocked:
            process.learn(numbers)
            process.learn(unlocking: keybag, owner.present, .secret)
        case .followed:
            process.learn(unlocking: try owner.keybag(.former), owner.former, .secret)
            process.learn(numbers)
            process.follow(keybag)
        case .written: process.learn(writing: owner.present, isOwn: true)
        case .file: (outside.owner, outside.numbers) = (keybag.owner.key, numbers)
        }
        return (process, outside)
    }

    private func refusal(of keybag: Keybag, _ process: Knowledge, _ outside: Knowledge.Outside = .init())
        -> String?
    {
        do throws(Knowledge.Refusal) { try process.judge(keybag, with: outside) } catch {
            switch error {
            case .otherStore: return "another store"
            case .rolledBack: return "rolled back"
            case .forged: return "forged"
            }
        }
        return nil
    }

    @Test func whereTheUserHasAnotherStoreEachIsRefused() throws {
        let outside = Knowledge.Outside(isAnotherHere: true)
        #expect(try refusal(of: owner.keybag(.present), Knowledge(), outside) == "another store")
    }

    // MARK: Learning

    @Test func numbersOnlyRiseAndThoseThatNoStoreReachesDoNotCount() throws {
        var process = Knowledge()
        for (generation, epoch) in [(20, 4), (19, 5), (1 << 48, 1), (1, 1 << 31)] as [(UInt64, UInt32)] {
            process.learn(KeybagNumbers(generation: generation, epoch: epoch))
        }
        #expect(process.highest == KeybagNumbers(generation: 20, epoch: 5))
        #expect(!process.isNewest(19) && process.isNewest(20))
        #expect(!process.isNewest(20, besides: KeybagNumbers(generation: 21, epoch: 5)))
        let outside = Knowledge.Outside(numbers: KeybagNumbers(generation: 1 << 48, epoch: 1))
        #expect(try refusal(of: owner.keybag(.present), Knowledge(), outside) == nil)
    }

    /// Level 2, of a service's slot or left by a lock in the kernel, can be sealed again by others who have its key.
    @Test(arguments: [OwnersKeybags.Unlock.service, .lockedKernel])
    func levelTwoAloneTakesNoKnowledgeAway(_ later: OwnersKeybags.Unlock) throws {
        let (present, forged) = (try owner.keybag(.present), try owner.keybag(.forged))
        for unlock in [OwnersKeybags.Unlock.secret, .service] {
            var process = Knowledge()
            process.learn(unlocking: present, owner.present, unlock)
            let before = try #require(process.unlocked)
            process.learn(unlocking: forged, try owner.forged(), later)
            let after = try #require(process.unlocked)
            #expect(after.owner == before.owner && after.isOwn)
            #expect(after.firstProtected == present.firstProtected && present.firstProtected > 1)
            #expect(unlock == .secret || after.closings.first == present.closing)
        }
    }

    /// Without the owner's key, what was said of an epoch first counts.
    @Test func aClosedEpochStaysAsItWasListed() throws {
        let hash = [1].withUnsafeBytes(RecordHash.init(hashing:))
        var (same, later) = (owner.present, try owner.present.next())
        same.closeOlderEpochs(listing: hash) { _ in true }
        later.closeOlderEpochs(listing: hash) { _ in true }
        for (unlock, expected) in [
            (.service, [[owner.present.closing], [owner.present.closing, later.closing]]),
            (.secret, [[same.closing], [later.closing]]),
        ] as [(OwnersKeybags.Unlock, [[Closing]])] {
            var process = Knowledge()
            process.learn(unlocking: try owner.keybag(.present), owner.present, unlock)
            let unlocked = try #require(process.unlocked)
            #expect(try [same, later].map { try unlocked.closings(of: owner.read($0)) } == expected)
        }
    }

    @Test func aSecretMakesTheKernelsUnlockOne() throws {
        var process = Knowledge()
        process.learn(unlocking: try owner.keybag(.present), owner.present, .kernel)
        process.learn(unlocking: try owner.keybag(.forged), try owner.forged(), .kernel)
        #expect(try refusal(of: owner.keybag(.present), process) == nil, "what the kernel has proves nothing")
        process.learn(unlocking: try owner.keybag(.present), owner.present, .secret)
        #expect(try refusal(of: owner.keybag(.forged), process) == "forged")
    }

    /// A program that has a service's slot itself takes from the kernel only the key that it has.
    @Test(
        arguments: [
            (nil, true), (.kernel, true), (.secret, true), (.service, false),
        ] as [(OwnersKeybags.Unlock?, Bool)]
    )
    func anotherUnlockInTheKernelIsTakenOrNot(after unlock: OwnersKeybags.Unlock?, isTaken: Bool) throws {
        var process = Knowledge()
        if let unlock { process.learn(unlocking: try owner.keybag(.present), owner.present, unlock) }
        #expect(process.accepts(owner.present.unlockKeys))
        #expect(try process.accepts(owner.forged().unlockKeys) == isTaken)
        #expect(process.accepts([:]) == isTaken)
    }

    @Test func theRemovalOfAllSlotsIsFollowedAndEndsTheKnowledge() throws {
        var process = Knowledge()
        process.learn(unlocking: try owner.keybag(.present), owner.present, .secret)
        process.follow(try owner.keybag(.withoutSlots))
        #expect(process.unlocked == nil)
        #expect(try refusal(of: owner.keybag(.forgedWithoutSlots), process) == nil)
    }

    // MARK: Accepting

    /// The counter's generation, the process's numbers, and those that the next keybag exceeds. The accepted one has 5 and 4.
    @Test(
        arguments: [
            (nil, nil, nil), (nil, (30, 4), (30, 4)), (40, nil, (40, 39)), (40, (30, 50), (40, 50)),
            // A store that followed them would soon have numbers that are not remembered, or that its counter cannot follow.
            (nil, (1 << 47, 4), nil), (nil, (30, 1 << 30), nil), (40, (40 + 129, 4), (40, 39)),
        ] as [(UInt64?, (UInt64, UInt32)?, (UInt64, UInt32)?)]
    )
    func anAcceptedKeybagExceedsWhatWasSeen(
        _ counted: UInt64?,
        _ seen: (UInt64, UInt32)?,
        _ expected: (UInt64, UInt32)?
    ) throws {
        var accepted = owner.former
        accepted.generation = 5
        let (keybag, outside) = (try owner.read(accepted), Knowledge.Outside(counted: counted))
        #expect(keybag.epoch == 4)
        var process = Knowledge()
        process.learn(unlocking: try owner.keybag(.present), owner.present, .secret)
        if let seen { process.learn(KeybagNumbers(generation: seen.0, epoch: seen.1)) }
        let last = process.last(before: keybag, with: outside, isFollowed: true)
        #expect(last == expected.map { KeybagNumbers(generation: $0.0, epoch: $0.1) })
        process.accept(keybag, with: outside)
        #expect(process.unlocked == nil)
        let isFollowed = seen.map { expected?.0 ?? 0 >= $0.0 } ?? true
        #expect((process.highest != nil) == (seen != nil && isFollowed))
    }

    // MARK: Making

    @Test func noKeybagFollowsNumbersThatNothingCouldFollow() throws {
        #expect(try KeybagContents.generation(after: .max - 2) == .max - 1)
        #expect(throws: RecordError.self) { try KeybagContents.generation(after: .max - 1) }
        // Nothing authenticates those of a store without slots.
        for (generation, epoch, isPossible) in [
            ((1 << 47) - 1, 1, true), (1 << 47, 1, false), (1, (1 << 30) - 2, true),
            (1, (1 << 30) - 1, false),
        ] as [(UInt64, UInt32, Bool)] {
            var first = try owner.withFirstSlot()
            (first.generation, first.epoch) = (generation, epoch)
            #expect(((try? first.beginEpoch()) != nil) == isPossible, "\(generation), \(epoch)")
        }
    }
}
