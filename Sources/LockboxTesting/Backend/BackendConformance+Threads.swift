import Dispatch
import LockboxCore
import LockboxPlatform

/// Requirements for concurrent access.
extension BackendConformance {
    static let updateIsOneStep = BackendConformance(
        "no other call takes effect between an update's read and its write"
    ) { backend in
        try backend.interruptUpdate("an update", expecting: ["0ab", "0ba"]) { key in
            try backend.append("b", to: key)
        }
        try backend.interruptUpdate("a write", expecting: ["b", "ba"]) { key in
            try backend.write(backend.item(key, "b"))
        }
        try backend.interruptUpdate("a removal", expecting: [nil, "a"]) { key in
            try backend.backend.remove(key)
        }
    }

    static let manyThreads = BackendConformance("concurrent calls lose no writes") { backend in
        let failures = Protected<[any Error]>([])
        DispatchQueue.concurrentPerform(iterations: 8) { thread in
            do {
                for round in 0..<10 {
                    try backend.write(backend.item(backend.key("shared"), "thread \(thread)"))
                    try backend.write(backend.item(backend.key("own \(thread)"), "round \(round)"))
                    try backend.expect(
                        backend.text(backend.key("shared")) != nil,
                        "the shared item is absent"
                    )
                }
            } catch {
                failures.withLock { $0.append(error) }
            }
        }
        if let error = failures.withLock({ $0.first }) { throw error }
        try backend.expect(
            backend.text(backend.key("shared"))?.hasPrefix("thread ") == true,
            "no thread's value"
        )
        for thread in 0..<8 {
            try backend.expect(
                backend.text(backend.key("own \(thread)")) == "round 9",
                "thread \(thread) lost a value"
            )
        }
        try backend.write(backend.item(backend.key("counter"), "0"))
        DispatchQueue.concurrentPerform(iterations: 8) { _ in
            try? backend.backend.update(backend.key("counter"), now: Subject.now) { old in
                let count = old.flatMap { Int(String(decoding: $0.value.data, as: UTF8.self)) } ?? 0
                return try backend.item(backend.key("counter"), "\(count + 1)")
            }
        }
        try backend.expect(backend.text(backend.key("counter")) == "8", "updates were lost")
        let added = Protected(0)
        DispatchQueue.concurrentPerform(iterations: 8) { thread in
            if (try? backend.write(backend.item(backend.key("contested"), "thread \(thread)"), .addOnly))
                != nil
            {
                added.withLock { $0 += 1 }
            }
        }
        try backend.expect(added.withLock { $0 } == 1, "more than one thread added one key")
    }
}
