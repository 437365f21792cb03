// A process of its own for the tests: one that uses a store beside others, or dies in the middle.
//
//     LockboxTestProcess use DIRECTORY NUMBER          waits for the end of standard input, then writes and reads
//     LockboxTestProcess write DIRECTORY KEY VALUE     archives one value
//     LockboxTestProcess write DIRECTORY KEY VALUE MS  the same; status 5 if the lock is held for so many milliseconds
//     LockboxTestProcess async                         makes an async call, and prints the error of a system call
//     LockboxTestProcess read DIRECTORY KEY            prints it; status 1 if it is absent, 3 if it cannot be read
//     LockboxTestProcess die DIRECTORY KEY VALUE N     the same, but kills itself before its N-th call that changes the disk
//     LockboxTestProcess count DIRECTORY N LOG         waits as well, then counts N times, with a byte in LOG after each
//     LockboxTestProcess vectors DIRECTORY             makes a store and prints it as test vectors
//     LockboxTestProcess die-in DIRECTORY N OPERATION … the same in another operation: see Operations.swift
//     LockboxTestProcess memory DIRECTORY FOLDER       looks for keys in its own memory: see MemoryScan.swift
//     LockboxTestProcess migrate DIRECTORY             waits as well, then migrates: see OneMigration.swift
//     LockboxTestProcess idle DIRECTORY SECONDS        waits for changes and prints what it costs: see IdleSubscriber.swift
//     LockboxTestProcess move DIRECTORY KEY KEY        moves an item there and back until standard input ends
//     LockboxTestProcess hold DIRECTORY KEY            takes the lock, says so, and keeps it until standard input ends
//     LockboxTestProcess power …                       for Proofs/PowerCut/run: see PowerCut.swift
//     LockboxTestProcess limits …                      for Proofs/Limits/run: see Limits.swift
//     LockboxTestProcess history …                     for Proofs/History/run: see History.swift
//     LockboxTestProcess refresh …                     for Proofs/Refresh/run: see Refresh.swift
//     LockboxTestProcess attacks                       for Proofs/Attacks/run: see Attacks.swift
//     LockboxTestProcess simulate …                    plays simulations: see Simulate.swift
//     LockboxTestProcess age …                         for Scripts/test-age: see AgeFiles.swift

import Foundation

@testable import Lockbox
@testable import LockboxCore
@_spi(Extensions) @testable import LockboxStore

let arguments = Array(CommandLine.arguments.dropFirst())
let prefix = "com.example.process"

func lockbox(_ directory: String, _ calls: SystemCalls = SystemCalls()) throws -> Lockbox {
    // On a machine that is busy enough, twenty processes may wait longer than users should.
    let storage = FileStorage(StoreLocation(directory), calls: calls, lockTimeout: .seconds(300))
    return try Lockbox(keyPrefix: prefix, backend: backend(on: storage))
}

/// All copies of a folder are one store, so each has a memory of its own.
func backend(on storage: FileStorage) -> EncryptedFileBackend {
    let memory = StoreMemory("\(storage.directory)-known/stores", of: storage.directory)
    return SealedBackend(KeyStore(storage: storage, deviceKey: .stored, memory: memory))
}

/// Dies before its nth call that changes the disk: the calls in between leave it as it is.
func dying(before last: Int) -> SystemCalls {
    let count = Counter()
    return SystemCalls(fault: { call in
        switch call {
        case .mkdir, .write, .fsync, .rename, .unlink, .chmod:
            if count.next() == last { kill(getpid(), SIGKILL) }
        case .open, .fstat, .stat, .read, .close, .flock, .readdir: break
        }
        return nil
    })
}

func waitForEndOfInput() {
    while readLine() != nil {}
}

switch arguments.first {
case "use" where arguments.count == 3:
    waitForEndOfInput()
    let lockbox = try lockbox(arguments[1])
    try lockbox.archiveObject("of \(arguments[2])", forKey: "own \(arguments[2])")
    try lockbox.archiveObject("of \(arguments[2])", forKey: "shared")
    guard try lockbox.unarchiveObject(forKey: "own \(arguments[2])") == "of \(arguments[2])" else { exit(2) }

case "write" where arguments.count == 4:
    try lockbox(arguments[1]).archiveObject(arguments[3], forKey: arguments[2])

case "write" where arguments.count == 5:
    let storage = FileStorage(directory: arguments[1], lockTimeout: .milliseconds(Int(arguments[4])!))
    do {
        try Lockbox(keyPrefix: prefix, backend: backend(on: storage)).archiveObject(
            arguments[3],
            forKey: arguments[2]
        )
    } catch LockboxError.lockTimeout { exit(5) }

case "async" where arguments.count == 1:
    // On this thread, because the system gives no other.
    let loop = OneThread()
    Task(executorPreference: loop) {
        do {
            _ = try await Lockbox(keyPrefix: prefix, backend: InMemoryBackend()).unarchiveObject(
                String.self,
                forKey: "k"
            )
        } catch LockboxError.storageFailure(let operation, _, let code, _) { print(operation, code) }
        exit(0)
    }
    loop.run()

case "read" where arguments.count == 3:
    do {
        guard let value: String = try lockbox(arguments[1]).unarchiveObject(forKey: arguments[2]) else {
            exit(1)
        }
        print(value)
    } catch {
        FileHandle.standardError.write(Data("\(error)\n".utf8))
        exit(3)
    }

case "age" where arguments.count > 2: try ageFiles(Array(arguments.dropFirst()))

case "idle" where arguments.count == 3:
    try idle(arguments[1], UInt32(arguments[2])!)

case "count" where arguments.count == 4:
    waitForEndOfInput()
    let log = open(arguments[3], O_WRONLY | O_CREAT | O_APPEND, 0o600)
    let lockbox = try lockbox(arguments[1])
    for _ in 0..<(Int(arguments[2]) ?? 0) {
        try lockbox.update("count", as: Int.self) { $0 = ($0 ?? 0) + 1 }
        guard write(log, ".", 1) == 1 else { exit(2) }
    }

case "die" where arguments.count == 5:
    try lockbox(arguments[1], dying(before: Int(arguments[4])!)).archiveObject(
        arguments[3],
        forKey: arguments[2]
    )

case "die-in" where arguments.count >= 4:
    let last = Int(arguments[2])!
    let storage = FileStorage(StoreLocation(arguments[1]), calls: dying(before: last))
    try run(arguments[3], Array(arguments[4...]), backend(on: storage), arguments[1])

case "memory" where arguments.count == 3:
    exit(try scanMemory(directory: arguments[1], folder: arguments[2]))

case "fork" where arguments.count == 3:
    exit(try forkWithOpenStore(arguments[1], passcode: arguments[2]))

case "migrate" where arguments.count == 2:
    waitForEndOfInput()
    exit(try migrate(arguments[1]))

case "move" where arguments.count == 4:
    let lockbox = try lockbox(arguments[1])
    var input = pollfd(fd: STDIN_FILENO, events: Int16(POLLIN), revents: 0)
    print("moving")
    fflush(nil)
    while poll(&input, 1, 0) == 0 {
        try lockbox.moveObject(forKey: arguments[2], toKey: arguments[3])
        try lockbox.moveObject(forKey: arguments[3], toKey: arguments[2])
    }

case "hold" where arguments.count == 3:
    let backend = EncryptedFileBackend(directory: arguments[1])
    let record = try backend.recordName(of: ItemKey(prefix: prefix, key: arguments[2]))
    try backend.storage.holdingLock(of: record.namespace) {
        print("held")
        fflush(nil)
        waitForEndOfInput()
    }

case "power":
    try power(Array(arguments.dropFirst()))

case "limits":
    try limits(Array(arguments.dropFirst()))

case "history":
    try history(Array(arguments.dropFirst()))

case "refresh":
    try refresh(Array(arguments.dropFirst()))

case "simulate":
    try simulate(Array(arguments.dropFirst()))

case "attacks" where arguments.count == 1:
    try attacks()

case "vectors" where arguments.count == 2:
    try printVectors(arguments[1])

default:
    exit(64)
}

/// Used by one thread only; a class so that the closure can change it.
final class Counter: @unchecked Sendable {
    private var value = 0

    func next() -> Int {
        value += 1
        return value
    }
}

/// Runs tasks on the thread that calls it.
final class OneThread: TaskExecutor {
    private let jobs = Protected<[UnownedJob]>([])

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        jobs.withLock { $0.append(job) }
    }

    func run() -> Never {
        while true {
            let job = jobs.withLock { $0.isEmpty ? nil : $0.removeFirst() }
            if let job { job.runSynchronously(on: asUnownedTaskExecutor()) } else { usleep(1000) }
        }
    }
}
