import Foundation
import Lockbox

/// Tells on standard error how far long work has come: a bar on a terminal, else a line at each tenth.
struct ProgressReport {
    private let work: String
    private let isQuiet: Bool
    private let isBar = Terminal.isThere(STDERR_FILENO)
    private var shown = -1

    init(_ work: String, quiet: Bool) {
        self.work = work
        isQuiet = quiet
    }

    mutating func show(_ progress: StoreProgress) {
        guard !isQuiet, progress.total > 0 else { return }
        let steps = isBar ? 30 : 10
        let step = steps * progress.completed / progress.total
        guard step != shown else { return }
        shown = step
        let count = "\(progress.completed) of \(progress.total)"
        if isBar {
            let bar = String(repeating: "#", count: step) + String(repeating: ".", count: steps - step)
            Output.status("\r\(work) [\(bar)] \(count)")
        } else {
            Output.note("\(work): \(count)")
        }
    }

    /// Ends the bar's line.
    mutating func end() {
        if isBar, shown >= 0 { Output.status("\r\u{1B}[K") }
        shown = -1
    }
}
