// A counter that any number of processes increment.
//
//     swift run Counter 200            adds one, 200 times

import Foundation
import Lockbox

extension LockboxKey<Int> {
    static var count: Self { Self("count", default: 0) }
}

do {
    let lockbox = try Lockbox(keyPrefix: "com.example.counter")
    for _ in 0..<(CommandLine.arguments.dropFirst().first.flatMap { Int($0) } ?? 1) {
        // Reads, changes and writes in one step. With a read and a write of its own, increments would be lost.
        try lockbox.update(.count) { $0 += 1 }
    }
    print(try lockbox[.count])
} catch {
    FileHandle.standardError.write(Data("Counter: \(error)\n".utf8))
    exit(1)
}
