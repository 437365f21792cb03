import Lockbox

/// Reports progress on standard error: a bar on a terminal, otherwise a line for each tenth.
struct ProgressReport {
    private let work: String
    private let isQuiet: Bool
    private let isBar = Terminal.isCapable(STDERR_FILENO)
    private var shown: Int?

    init(_ work: String, quiet: Bool) {
        self.work = work
        isQuiet = quiet
    }

    mutating func show(_ progress: StoreProgress) {
        guard !isQuiet, progress.total > 0 else { return }
        let count = "\(progress.completed) of \(progress.total)"
        let width = isBar ? barWidth(beside: count) : 10
        let step = width == 0 ? progress.completed : width * progress.completed / progress.total
        guard step != shown else { return }
        shown = step
        if !isBar { return Output.note("\(work): \(count)") }
        if width == 0 { return Output.status("\r\(work) \(count)") }
        let bar = String(repeating: "#", count: step) + String(repeating: ".", count: width - step)
        Output.status("\r\(work) [\(bar)] \(count)")
    }

    /// Zero on a terminal that is too narrow for a bar.
    private func barWidth(beside count: String) -> Int {
        let room = (Terminal.width(of: STDERR_FILENO) ?? 80) - work.count - count.count - 5
        return room < 5 ? 0 : min(room, 30)
    }

    /// Clears the bar.
    mutating func end() {
        if isBar, shown != nil { Output.status("\r\u{1B}[K") }
        shown = nil
    }
}
