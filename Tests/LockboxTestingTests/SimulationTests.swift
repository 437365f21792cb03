import LockboxTesting
import Testing

@Suite(.tags(.waits), .serialized) struct SimulationTests {
    /// A failure prints the simulation with as few calls as can be found: keep it as a test. Proofs/Simulation/run plays new seeds.
    @Test func whatHappensHasAnExplanation() throws {
        for seed in 0..<50 as Range<UInt64> {
            let simulation = Simulation(seed: seed)
            do { try simulation.run() } catch let violation as Simulation.Violation {
                throw simulation.shrunk(violation)
            }
        }
    }

    @Test(arguments: Simulation.Defect.allCases) func aDefectIsFound(_ defect: Simulation.Defect) {
        #expect(throws: Simulation.Violation.self) {
            for seed in 0..<500 as Range<UInt64> { try Simulation(seed: seed, defect: defect).run() }
        }
    }
}
