/// Only the rows with this text are measured: the second argument, if there is one, or the third after `cluster`.
private let wanted =
    CommandLine.arguments.dropFirst(CommandLine.arguments.dropFirst().first == "cluster" ? 3 : 2)
    .first ?? ""

func isWanted(_ row: String) -> Bool { wanted.isEmpty || row.contains(wanted) }

/// Times `a` and `b` in turn and prints their medians and the ratio as a row of a table.
func compare(_ name: String, _ count: Int, _ a: () throws -> Void, _ b: () throws -> Void) {
    guard isWanted(name) else { return }
    var times: (a: [Duration], b: [Duration]) = ([], [])
    let turn = max(1, count / 100)
    let rounds = min(100, count)
    func run(_ work: () throws -> Void, into times: inout [Duration]) rethrows {
        for _ in 0..<turn { times.append(try ContinuousClock().measure(work)) }
    }
    do {
        for round in 0...rounds {
            try run(a, into: &times.a)
            try run(b, into: &times.b)
            if round == 0 { times = ([], []) }  // warm-up
        }
    } catch {
        print("| \(name) | failed: \(error) |")
        return
    }
    printRow(name, median(times.a), median(times.b))
}

/// The same for calls that are `async`.
func compareAsync(
    _ name: String,
    _ count: Int,
    _ a: () async throws -> Void,
    _ b: () async throws -> Void
) async throws {
    guard isWanted(name) else { return }
    var times: (a: [Duration], b: [Duration]) = ([], [])
    for round in 0...count {
        times.a.append(try await ContinuousClock().measure(a))
        times.b.append(try await ContinuousClock().measure(b))
        if round == count / 20 { times = ([], []) }  // warm-up
    }
    printRow(name, median(times.a), median(times.b))
}

private func printRow(_ name: String, _ a: Double, _ b: Double) {
    let ratio = (a / b * 100).rounded() / 100
    print("| \(name) | \(microseconds(a)) | \(microseconds(b)) | \(ratio) |")
}

private func median(_ times: [Duration]) -> Double {
    let middle = times.sorted()[times.count / 2]
    return Double(middle.components.attoseconds) / 1e12 + Double(middle.components.seconds) * 1e6
}

private func microseconds(_ time: Double) -> String { "\((time * 100).rounded() / 100) µs" }
