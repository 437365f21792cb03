import Foundation
import LockboxTesting

/// `LockboxTestProcess simulate FIRST SECONDS [DEFECT]` plays the seeds from FIRST for that time, and prints what was done. It ends at
/// the first violation, and prints it with as few calls as can be found. `simulate trace SEED` prints all calls of the World of one.
func simulate(_ arguments: [String]) throws {
    if arguments.first == "trace", let seed = arguments.last.flatMap({ UInt64($0) }) {
        var simulation = Simulation(seed: seed)
        simulation.trace = { print($0) }
        print(try simulation.run())
        return
    }
    guard arguments.count >= 2, var seed = UInt64(arguments[0]), let seconds = Int(arguments[1]) else {
        exit(64)
    }
    let defect = arguments.count > 2 ? Simulation.Defect(rawValue: arguments[2]) : nil
    let (first, begin) = (seed, ContinuousClock.now)
    var (calls, kills, cuts, failures, operations, undecided) = (0, 0, 0, 0, 0, 0)
    while ContinuousClock.now - begin < .seconds(seconds) {
        let simulation = Simulation(seed: seed, defect: defect)
        do {
            let counts = try simulation.run()
            calls += counts.calls
            kills += counts.kills
            cuts += counts.cuts
            failures += counts.failures
            operations += counts.operations
            undecided += counts.undecidedDays
        } catch let violation as Simulation.Violation {
            print("after \(seed - first) seeds and \(ContinuousClock.now - begin):")
            print(simulation.shrunk(violation))
            exit(1)
        }
        seed += 1
    }
    let kinds = "\(kills) kills, \(cuts) cuts, \(failures) failures, \(undecided) undecided days"
    print(
        "\(seed - first) seeds, \(operations) operations, \(calls) calls of the World, \(kinds): no violation"
    )
}
