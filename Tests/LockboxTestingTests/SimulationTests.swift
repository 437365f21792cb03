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

    /// What simulations have found: a keybag whose passcode another process had just removed was called tampered with, and one whose
    /// successor was remembered before it was durable an old copy.
    @Test(arguments: [100_150, 300_116, 300_200] as [UInt64]) func aMendedFaultStaysMended(_ seed: UInt64)
        throws
    {
        try Simulation(seed: seed).run()
    }

    @Test(arguments: Simulation.Defect.allCases) func aDefectIsFound(_ defect: Simulation.Defect) {
        #expect(throws: Simulation.Violation.self) {
            for seed in 0..<500 as Range<UInt64> { try Simulation(seed: seed, defect: defect).run() }
        }
    }
}
