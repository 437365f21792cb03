import Foundation

@testable import Lockbox
@testable import LockboxCore
@testable import LockboxStore

/// A worker of Proofs/History/run: random calls on one store by some threads, each recorded in a log of its own, until the
/// standard input ends.
///
///     history run engine=files:DIRECTORY folder=LOGS worker=1 threads=2 backends=shared|separate seed=1 mix=items …
///     history look engine=files:DIRECTORY folder=LOGS worker=2 …     reads every key in every way
///     history findings engine=files:DIRECTORY …                      prints what is wrong with the store
///     history secrets engine=files:DIRECTORY …                       stores what it is told: see HistorySecrets.swift
func history(_ arguments: [String]) throws {
    let settings = try HistorySettings(Array(arguments.dropFirst()))
    switch arguments.first {
    case "run": try runHistory(settings)
    case "look": try look(settings)
    case "findings": for finding in try settings.open().findings() { print(finding) }
    case "secrets": try storeSecrets(settings.open())
    default: exit(64)
    }
}

extension HistorySettings {
    fileprivate func open() throws -> HistoryEngine {
        try HistoryEngine(engine, defect: defect)
    }
}

private func runHistory(_ settings: HistorySettings) throws {
    let shared = settings.isShared ? try settings.open() : nil
    let isStopped = Protected(false)
    let done = DispatchGroup()
    for number in 0..<settings.threads {
        let engine = try shared ?? settings.open()
        done.enter()
        Thread.detachNewThread {
            do {
                try HistoryThread(engine, settings, number: number).run { isStopped.withLock { $0 } }
            } catch {
                fatalError("thread \(number): \(error)")
            }
            done.leave()
        }
    }
    // Killed together with the coordinator, too: its end of the pipe is closed then.
    if settings.calls == .max { waitForEndOfInput() } else { done.wait() }
    isStopped.withLock { $0 = true }
    done.wait()
}

/// Everything, as a process that has just started sees it.
private func look(_ settings: HistorySettings) throws {
    let thread = try HistoryThread(settings.open(), settings, number: 0)
    if settings.mix == .passcodes {
        for passcode in ["one", "two"] {
            thread.record("unlock") {
                try thread.engine.unlock(passcode)
                return "ok"
            }
        }
    }
    for prefix in (0..<settings.prefixes).map(HistorySettings.prefix) {
        for number in 0..<settings.keys {
            let key = try ItemKey(prefix: prefix, key: String(number))
            for call in [HistoryCall.value, .item, .attributes] { thread.read(call, key) }
        }
        thread.list(prefix)
    }
    thread.prefixes()
}
