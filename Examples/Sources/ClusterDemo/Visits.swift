import Foundation
import TinyHTTP

/// Clients of the service: two for each user, which ask one instance after the other.
actor Visits {
    private let ports: [Int]
    private var answers = 0
    private var retries = 0
    private var loggedOut = 0
    private var unanswered = 0
    private var backwards = 0
    private var longest = Duration.zero

    init(ports: [Int]) { self.ports = ports }

    var report: String {
        let longest = Double(longest / .milliseconds(1)).rounded() / 1000
        return "answers \(answers)\nretries \(retries)\nlongest \(longest)\nlogged-out \(loggedOut)\n"
            + "unanswered \(unanswered)\nbackwards \(backwards)\n"
    }

    func run(_ users: [String], for duration: Duration) async {
        let end = ContinuousClock.now + duration
        await withTaskGroup(of: Void.self) { group in
            for (number, user) in (users + users).enumerated() {
                group.addTask { await self.visit(user, from: number, until: end) }
            }
        }
    }

    /// Each session is refreshed once more after this: what was lost shows then.
    private func visit(_ user: String, from first: Int, until end: ContinuousClock.Instant) async {
        var (number, seen, goal) = (first, -1, Int.max)
        while ContinuousClock.now < end || seen < goal {
            guard let refreshes = await ask(user, first: number, until: end + .seconds(20)) else { return }
            // Every read sees all that was written before it, whichever instance reads.
            if refreshes < seen { backwards += 1 }
            seen = max(seen, refreshes)
            if ContinuousClock.now >= end, goal == .max { goal = seen + 1 }
            number += 1
        }
    }

    /// Asks until an instance answers. Returns nil if the user is logged out, or no instance answers any more.
    private func ask(_ user: String, first: Int, until end: ContinuousClock.Instant) async -> Int? {
        let clock = ContinuousClock()
        let start = clock.now
        for number in first... where clock.now < end {
            let request = Request("GET", "/users/\(user)")
            let response = try? await exchange(request, port: ports[number % ports.count])
            switch response?.status {
            case 200:
                answers += 1
                longest = max(longest, clock.now - start)
                return Int(response!.body.split(separator: " ").last ?? "") ?? 0
            case 401:
                loggedOut += 1
                return nil
            default:
                retries += 1
                try? await Task.sleep(for: .milliseconds(20))
            }
            if clock.now >= end { break }
        }
        unanswered += 1
        return nil
    }
}
