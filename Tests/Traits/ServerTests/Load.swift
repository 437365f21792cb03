import LockboxIdentities
import Foundation
import Lockbox
import Synchronization

/// Handshakes, a number of them at a time, until there were enough.
final class Load: Sendable {
    struct Handshake: Sendable {
        let begin: ContinuousClock.Instant
        let end: ContinuousClock.Instant
        let result: Result<Chain, any Error>
    }

    enum Chain: Sendable { case old, new }

    private let client: Client
    private let old: Data
    private let new: Data
    private let begun = Mutex(0)

    init(_ client: Client, old: IdentityItem, new: IdentityItem) {
        (self.client, self.old, self.new) = (client, old.chain[0], new.chain[0])
    }

    func run(_ count: Int, atOnce: Int = 16) async -> [Handshake] {
        await withTaskGroup(of: [Handshake].self) { group in
            for _ in 0..<atOnce {
                group.addTask {
                    var handshakes: [Handshake] = []
                    while self.begun.withLock({ begun in
                        begun += 1
                        return begun <= count
                    }) {
                        handshakes.append(await self.handshake())
                    }
                    return handshakes
                }
            }
            return await group.reduce(into: []) { $0 += $1 }
        }
    }

    private func handshake() async -> Handshake {
        let begin = ContinuousClock.now
        let result: Result<Chain, any Error>
        do {
            switch try await client.visit() {
            case old: result = .success(.old)
            case new: result = .success(.new)
            default: throw Failure("another certificate")
            }
        } catch { result = .failure(error) }
        let end = ContinuousClock.now
        // As clients do that try again.
        if case .failure = result { try? await Task.sleep(for: .milliseconds(50)) }
        return Handshake(begin: begin, end: end, result: result)
    }

    /// Waits until so many handshakes have begun.
    func wait(until count: Int) async throws {
        while begun.withLock({ $0 }) < count { try await Task.sleep(for: .milliseconds(1)) }
    }
}

/// What is counted of them.
struct Outcome {
    let count: Int
    let old: Int
    let new: Int
    let failures: [String]
    /// How long after the renewal had begun, and after it had ended, the last handshake with the old chain began. Nil if none
    /// had the new one.
    let delay: Duration?
    let lag: Duration?
    /// Whether no handshake that began after one with the new chain had ended had the old one.
    let isInOrder: Bool
    private let time: Duration

    init(_ handshakes: [Load.Handshake], renewal: Range<ContinuousClock.Instant>) {
        var (olds, news, failures): ([Load.Handshake], [Load.Handshake], [String]) = ([], [], [])
        for handshake in handshakes {
            switch handshake.result {
            case .success(.old): olds.append(handshake)
            case .success(.new): news.append(handshake)
            case .failure(let error): failures.append("\(error)")
            }
        }
        (count, old, new, self.failures) = (handshakes.count, olds.count, news.count, failures)
        let lastOld = olds.map(\.begin).max()
        let firstNew = news.map(\.end).min()
        func since(_ instant: ContinuousClock.Instant) -> Duration? {
            firstNew.map { _ in max(.zero, lastOld.map { $0 - instant } ?? .zero) }
        }
        (delay, lag) = (since(renewal.lowerBound), since(renewal.upperBound))
        isInOrder = lastOld.flatMap { last in firstNew.map { last < $0 } } ?? true
        let (first, last) = (handshakes.map(\.begin).min(), handshakes.map(\.end).max())
        time = first.flatMap { first in last.map { $0 - first } } ?? .zero
    }

    /// A row of the table that Scripts/test-traits prints.
    func row(_ name: String) -> String {
        let delay = delay.map { "\(Int($0 / .milliseconds(1))) ms" } ?? "-"
        let seconds = time.formatted(.units(allowed: [.seconds], fractionalPart: .show(length: 1)))
        return "| \(name) | \(count) | \(old) | \(new) | \(failures.count) | \(delay) | \(seconds) |"
    }
}
